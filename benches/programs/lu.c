/* LU decomposition of a matrix in blocks, without pivots: the diagonal block, its row and column,
 * the rest, with a barrier after each step. */
#include "parallel.h"

enum { SIZE = 1152, BLOCK = 32, BLOCKS = SIZE / BLOCK };

static double (*matrix)[SIZE];

static void decompose_diagonal(int start)
{
    for (int pivot = start; pivot < start + BLOCK; pivot++) {
        for (int row = pivot + 1; row < start + BLOCK; row++) {
            matrix[row][pivot] /= matrix[pivot][pivot];
            for (int column = pivot + 1; column < start + BLOCK; column++)
                matrix[row][column] -= matrix[row][pivot] * matrix[pivot][column];
        }
    }
}

static void solve_column(int diagonal, int start)
{
    for (int row = start; row < start + BLOCK; row++) {
        for (int pivot = diagonal; pivot < diagonal + BLOCK; pivot++) {
            matrix[row][pivot] /= matrix[pivot][pivot];
            for (int column = pivot + 1; column < diagonal + BLOCK; column++)
                matrix[row][column] -= matrix[row][pivot] * matrix[pivot][column];
        }
    }
}

static void solve_row(int diagonal, int start)
{
    for (int pivot = diagonal; pivot < diagonal + BLOCK; pivot++)
        for (int row = pivot + 1; row < diagonal + BLOCK; row++)
            for (int column = start; column < start + BLOCK; column++)
                matrix[row][column] -= matrix[row][pivot] * matrix[pivot][column];
}

static void update(int diagonal, int top, int left)
{
    for (int row = top; row < top + BLOCK; row++)
        for (int pivot = diagonal; pivot < diagonal + BLOCK; pivot++)
            for (int column = left; column < left + BLOCK; column++)
                matrix[row][column] -= matrix[row][pivot] * matrix[pivot][column];
}

static void *decompose(void *number)
{
    long thread = (long)number;
    for (int step = 0; step < BLOCKS; step++) {
        int diagonal = step * BLOCK;
        if (step % thread_count == thread)
            decompose_diagonal(diagonal);
        meet();
        for (int block = step + 1; block < BLOCKS; block++) {
            if (block % thread_count == thread) {
                solve_column(diagonal, block * BLOCK);
                solve_row(diagonal, block * BLOCK);
            }
        }
        meet();
        for (int row = step + 1; row < BLOCKS; row++)
            if (row % thread_count == thread)
                for (int column = step + 1; column < BLOCKS; column++)
                    update(diagonal, row * BLOCK, column * BLOCK);
        meet();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t state = 2463534242ull;
    matrix = room_for(SIZE, sizeof *matrix);
    for (int row = 0; row < SIZE; row++)
        for (int column = 0; column < SIZE; column++)
            matrix[row][column] = next_fraction(&state) + (row == column ? SIZE : 0);
    run_threads(argc, argv, decompose);
    double sum = 0;
    for (int index = 0; index < SIZE; index++)
        sum += matrix[index][index] + matrix[index][SIZE - 1 - index];
    printf("%.9e\n", sum);
    return 0;
}
