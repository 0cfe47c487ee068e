/* Molecules in a box that repel each other: the forces of all pairs are added up under a lock for
 * each molecule, then the molecules move. */
#include <math.h>
#include <string.h>

#include "parallel.h"

enum { MOLECULES = 1000, STEPS = 40, GATHERED = 8 };

struct molecule {
    double place[3], speed[3], force[3];
    pthread_mutex_t lock;
};

static struct molecule *molecules;
static double energy;
static pthread_mutex_t energy_lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns what one molecule gets from another, and the potential. */
static double push(const struct molecule *to, const struct molecule *from, double force[3])
{
    double way[3], square = 0.01;
    for (int axis = 0; axis < 3; axis++) {
        way[axis] = to->place[axis] - from->place[axis];
        square += way[axis] * way[axis];
    }
    double sixth = 1 / (square * square * square);
    for (int axis = 0; axis < 3; axis++)
        force[axis] += way[axis] * (12 * sixth * sixth - 6 * sixth) / square;
    return sixth * sixth - sixth;
}

static void add_force(struct molecule *molecule, const double force[3])
{
    pthread_mutex_lock(&molecule->lock);
    for (int axis = 0; axis < 3; axis++)
        molecule->force[axis] += force[axis];
    pthread_mutex_unlock(&molecule->lock);
}

static double push_all(long first, long end)
{
    double potential = 0;
    for (long one = first; one < end; one++) {
        double own[3] = {0, 0, 0};
        for (long other = 0; other < MOLECULES; other++)
            if (other != one)
                potential += push(&molecules[one], &molecules[other], own);
        add_force(&molecules[one], own);
        double back[3] = {-own[0] / GATHERED, -own[1] / GATHERED, -own[2] / GATHERED};
        for (int near = 1; near <= GATHERED; near++)
            add_force(&molecules[(one + near) % MOLECULES], back);
    }
    return potential;
}

static void move(struct molecule *molecule)
{
    for (int axis = 0; axis < 3; axis++) {
        molecule->speed[axis] = fmax(-1, fmin(1, molecule->speed[axis] + molecule->force[axis] * 1e-4));
        molecule->place[axis] += molecule->speed[axis] * 1e-3;
        molecule->force[axis] = 0;
    }
}

static void *simulate(void *number)
{
    long first = part_start(MOLECULES, (long)number), end = part_start(MOLECULES, (long)number + 1);
    for (int step = 0; step < STEPS; step++) {
        double potential = push_all(first, end);
        pthread_mutex_lock(&energy_lock);
        energy += potential;
        pthread_mutex_unlock(&energy_lock);
        meet();
        for (long index = first; index < end; index++)
            move(&molecules[index]);
        meet();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t state = 123456789ull;
    molecules = room_for(MOLECULES, sizeof *molecules);
    for (int index = 0; index < MOLECULES; index++) {
        pthread_mutex_init(&molecules[index].lock, NULL);
        for (int axis = 0; axis < 3; axis++)
            molecules[index].place[axis] = 10 * next_fraction(&state);
    }
    run_threads(argc, argv, simulate);
    double sum = 0;
    for (int index = 0; index < MOLECULES; index++)
        sum += molecules[index].place[0];
    printf("%.6e %.6e\n", energy, sum);
    return 0;
}
