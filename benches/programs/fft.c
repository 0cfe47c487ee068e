/* A fast Fourier transform of many points: rows, twiddle factors, transposition, rows. Each thread
 * has its own rows. */
#include <complex.h>
#include <math.h>

#include "parallel.h"

enum { SIDE_BITS = 10, SIDE = 1 << SIDE_BITS, ROUNDS = 4 };

typedef double complex point;

static point (*points)[SIDE], (*turned)[SIDE];
static point roots[SIDE];

static void transform_row(point *row)
{
    for (int index = 0, mirrored = 0; index < SIDE; index++) {
        if (index < mirrored) {
            point kept = row[index];
            row[index] = row[mirrored];
            row[mirrored] = kept;
        }
        int bit = SIDE >> 1;
        for (; mirrored & bit; bit >>= 1)
            mirrored ^= bit;
        mirrored |= bit;
    }
    for (int half = 1; half < SIDE; half *= 2) {
        for (int start = 0; start < SIDE; start += 2 * half) {
            for (int index = 0; index < half; index++) {
                point odd = row[start + index + half] * roots[index * (SIDE / 2 / half)];
                row[start + index + half] = row[start + index] - odd;
                row[start + index] += odd;
            }
        }
    }
}

static void turn(point (*to)[SIDE], point (*from)[SIDE], long first, long end)
{
    for (long row = first; row < end; row++)
        for (int column = 0; column < SIDE; column++)
            to[row][column] = from[column][row];
}

static void transform_part(long first, long end)
{
    turn(turned, points, first, end);
    meet();
    for (long row = first; row < end; row++) {
        transform_row(turned[row]);
        for (int column = 0; column < SIDE; column++)
            turned[row][column] *= cexp(-2 * M_PI * I * (double)row * column / SIDE / SIDE);
    }
    meet();
    turn(points, turned, first, end);
    meet();
    for (long row = first; row < end; row++)
        transform_row(points[row]);
    meet();
}

static void *transform(void *number)
{
    for (int round = 0; round < ROUNDS; round++)
        transform_part(part_start(SIDE, (long)number), part_start(SIDE, (long)number + 1));
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t state = 521288629ull;
    points = room_for(SIDE, sizeof *points);
    turned = room_for(SIDE, sizeof *turned);
    for (int index = 0; index < SIDE; index++)
        roots[index] = cexp(-M_PI * I * index / (SIDE / 2));
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++)
            points[row][column] = next_fraction(&state) + I * next_fraction(&state);
    run_threads(argc, argv, transform);
    double sum = 0;
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++)
            sum += cabs(points[row][column]);
    printf("%.9e\n", sum);
    return 0;
}
