/* A stencil over a grid, as in models of currents: every thread relaxes its rows, and all threads
 * meet after each sweep to compare their progress. */
#include <math.h>

#include "parallel.h"

enum { SIDE = 514, SWEEPS = 900 };

static double (*grid)[SIDE];
static double changes[MOST_THREADS * 16];
static double whole_change;

/* The fields of one colour of a chess board depend only on those of the other. */
static double sweep(long first, long end, int colour)
{
    double change = 0;
    for (long row = first; row < end; row++) {
        for (long column = 1 + ((row + colour) & 1); column < SIDE - 1; column += 2) {
            double old = grid[row][column];
            double mean = (grid[row - 1][column] + grid[row + 1][column] + grid[row][column - 1] + grid[row][column + 1]) / 4;
            grid[row][column] = old + 1.3 * (mean - old);
            change += fabs(mean - old);
        }
    }
    return change;
}

static void *relax(void *number)
{
    long thread = (long)number;
    long first = 1 + part_start(SIDE - 2, thread), end = 1 + part_start(SIDE - 2, thread + 1);
    for (int round = 0; round < SWEEPS; round++) {
        double change = sweep(first, end, 0);
        meet();
        changes[thread * 16] = change + sweep(first, end, 1);
        meet();
        if (thread == 0) {
            whole_change = 0;
            for (int other = 0; other < thread_count; other++)
                whole_change += changes[other * 16];
        }
        meet();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t state = 88675123ull;
    grid = room_for(SIDE, sizeof *grid);
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++)
            grid[row][column] = next_fraction(&state);
    run_threads(argc, argv, relax);
    printf("%.6e %.9e\n", whole_change, grid[SIDE / 2][SIDE / 2]);
    return 0;
}
