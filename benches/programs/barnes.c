/* Bodies attract each other, by a tree of cells. Threads build the tree together under locks, then
 * each moves its bodies. */
#include <math.h>
#include <string.h>

#include "parallel.h"

enum { BODIES = 4000, STEPS = 16, MOST_CELLS = 200000, CHILDREN = 8, LOCKS = 256, DEEPEST = 40 };

struct body {
    double place[3], speed[3], pull[3], mass;
};

/* A child is 0, the number of a cell, or minus (the number of a body + 1). */
struct cell {
    int children[CHILDREN];
    double centre[3], mass;
};

static struct body *bodies;
static struct cell *cells;
static int cell_count;
static pthread_mutex_t locks[LOCKS], count_lock = PTHREAD_MUTEX_INITIALIZER;

static int new_cell(void)
{
    pthread_mutex_lock(&count_lock);
    int number = cell_count++;
    pthread_mutex_unlock(&count_lock);
    if (number >= MOST_CELLS)
        abort();
    memset(&cells[number], 0, sizeof cells[number]);
    return number;
}

/* Returns the child of a cube that contains a point. `middle` becomes the middle of that child. */
static int octant(const double place[3], double middle[3], double half)
{
    int child = 0;
    for (int axis = 0; axis < 3; axis++) {
        int is_upper = place[axis] >= middle[axis];
        child |= is_upper << axis;
        middle[axis] += is_upper ? half / 2 : -half / 2;
    }
    return child;
}

static void insert(int body)
{
    double middle[3] = {0, 0, 0}, half = 64;
    int cell = 1;
    for (int depth = 0; depth < DEEPEST; depth++) {
        double inner[3] = {middle[0], middle[1], middle[2]};
        int child = octant(bodies[body].place, inner, half);
        pthread_mutex_lock(&locks[cell % LOCKS]);
        int found = cells[cell].children[child];
        if (found <= 0) {
            if (found == 0) {
                cells[cell].children[child] = -(body + 1);
                pthread_mutex_unlock(&locks[cell % LOCKS]);
                return;
            }
            int fresh = new_cell();
            double below[3] = {inner[0], inner[1], inner[2]};
            cells[fresh].children[octant(bodies[-found - 1].place, below, half / 2)] = found;
            cells[cell].children[child] = fresh;
            found = fresh;
        }
        pthread_mutex_unlock(&locks[cell % LOCKS]);
        memcpy(middle, inner, sizeof middle);
        half /= 2;
        cell = found;
    }
    abort();
}

static void weigh(int number)
{
    struct cell *cell = &cells[number];
    for (int child = 0; child < CHILDREN; child++) {
        int found = cell->children[child];
        if (found == 0)
            continue;
        if (found > 0)
            weigh(found);
        const double *place = found > 0 ? cells[found].centre : bodies[-found - 1].place;
        double mass = found > 0 ? cells[found].mass : bodies[-found - 1].mass;
        for (int axis = 0; axis < 3; axis++)
            cell->centre[axis] += mass * place[axis];
        cell->mass += mass;
    }
    for (int axis = 0; axis < 3; axis++)
        cell->centre[axis] /= cell->mass;
}

static void attract(struct body *body, const double place[3], double mass)
{
    double way[3], square = 0.05;
    for (int axis = 0; axis < 3; axis++) {
        way[axis] = place[axis] - body->place[axis];
        square += way[axis] * way[axis];
    }
    double force = mass / (square * sqrt(square));
    for (int axis = 0; axis < 3; axis++)
        body->pull[axis] += force * way[axis];
}

static void attract_by(struct body *body, int number, double size)
{
    for (int child = 0; child < CHILDREN; child++) {
        int found = cells[number].children[child];
        if (found < 0 && &bodies[-found - 1] != body)
            attract(body, bodies[-found - 1].place, bodies[-found - 1].mass);
        if (found <= 0)
            continue;
        double square = 0;
        for (int axis = 0; axis < 3; axis++)
            square += pow(cells[found].centre[axis] - body->place[axis], 2);
        if (size * size < 0.5 * square)
            attract(body, cells[found].centre, cells[found].mass);
        else
            attract_by(body, found, size / 2);
    }
}

static void *simulate(void *number)
{
    long first = part_start(BODIES, (long)number), end = part_start(BODIES, (long)number + 1);
    for (int step = 0; step < STEPS; step++) {
        if ((long)number == 0) {
            cell_count = 1;
            new_cell();
        }
        meet();
        for (long body = first; body < end; body++)
            insert((int)body);
        meet();
        if ((long)number == 0)
            weigh(1);
        meet();
        for (long body = first; body < end; body++) {
            memset(bodies[body].pull, 0, sizeof bodies[body].pull);
            attract_by(&bodies[body], 1, 64);
        }
        meet();
        for (long body = first; body < end; body++) {
            for (int axis = 0; axis < 3; axis++) {
                bodies[body].speed[axis] += bodies[body].pull[axis] * 0.01;
                bodies[body].place[axis] = fmax(-60, fmin(60, bodies[body].place[axis] + bodies[body].speed[axis] * 0.01));
            }
        }
        meet();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t state = 362436069ull;
    bodies = room_for(BODIES, sizeof *bodies);
    cells = room_for(MOST_CELLS, sizeof *cells);
    for (int lock = 0; lock < LOCKS; lock++)
        pthread_mutex_init(&locks[lock], NULL);
    for (int body = 0; body < BODIES; body++) {
        bodies[body].mass = 1.0 / BODIES;
        for (int axis = 0; axis < 3; axis++)
            bodies[body].place[axis] = 20 * (next_fraction(&state) - 0.5);
    }
    run_threads(argc, argv, simulate);
    double sum = 0;
    for (int body = 0; body < BODIES; body++)
        sum += bodies[body].place[0] - bodies[body].place[1] + bodies[body].place[2];
    printf("%.6e\n", sum);
    return 0;
}
