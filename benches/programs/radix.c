/* A parallel radix sort: each thread counts its part, all agree on the places, each moves its part,
 * with a barrier after each step. */
#include "parallel.h"

enum { DIGIT_BITS = 11, BUCKETS = 1 << DIGIT_BITS, PASSES = 3, KEYS = 2000000, ROUNDS = 8 };

static uint32_t *keys, *moved;
static uint32_t counts[MOST_THREADS][BUCKETS];

static void count_part(long thread, int shift)
{
    for (int bucket = 0; bucket < BUCKETS; bucket++)
        counts[thread][bucket] = 0;
    for (long index = part_start(KEYS, thread); index < part_start(KEYS, thread + 1); index++)
        counts[thread][(keys[index] >> shift) & (BUCKETS - 1)]++;
}

/* Turns the counts of all threads into the places where each thread begins to write. */
static void place_all(void)
{
    uint32_t place = 0;
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        for (int thread = 0; thread < thread_count; thread++) {
            uint32_t count = counts[thread][bucket];
            counts[thread][bucket] = place;
            place += count;
        }
    }
}

static void *sort(void *number)
{
    long thread = (long)number;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t state = 88172645463325252ull + (uint64_t)(thread + round * MOST_THREADS) * 7919;
        for (long index = part_start(KEYS, thread); index < part_start(KEYS, thread + 1); index++)
            keys[index] = (uint32_t)next_number(&state);
        for (int pass = 0; pass < PASSES; pass++) {
            int shift = pass * DIGIT_BITS;
            count_part(thread, shift);
            meet();
            if (thread == 0)
                place_all();
            meet();
            for (long index = part_start(KEYS, thread); index < part_start(KEYS, thread + 1); index++)
                moved[counts[thread][(keys[index] >> shift) & (BUCKETS - 1)]++] = keys[index];
            meet();
            if (thread == 0) {
                uint32_t *other = keys;
                keys = moved;
                moved = other;
            }
            meet();
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    keys = room_for(KEYS, sizeof *keys);
    moved = room_for(KEYS, sizeof *moved);
    run_threads(argc, argv, sort);
    uint64_t sum = 0;
    for (long index = 0; index < KEYS; index++) {
        if (index > 0 && keys[index - 1] > keys[index])
            return 1;
        sum = sum * 31 + keys[index];
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
