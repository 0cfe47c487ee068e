/* What the parallel kernels share: threads, a barrier, reproducible random numbers, and a checksum.
 * Each kernel prints a figure that depends on all of its work, but not on the order in which its
 * threads did it. */
#ifndef PARALLEL_H
#define PARALLEL_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_THREADS = 64 };

static int thread_count = 2;
static pthread_barrier_t barrier;

/* Waits for all threads. */
static inline void meet(void)
{
    pthread_barrier_wait(&barrier);
}

/* The next number of a sequence. */
static inline uint64_t next_number(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The same, from 0 to less than 1. */
static inline double next_fraction(uint64_t *state)
{
    return (double)(next_number(state) >> 11) / 9007199254740992.0;
}

/* Allocates memory that lasts until the program ends. */
static inline void *room_for(size_t count, size_t bytes)
{
    void *room = calloc(count, bytes);
    if (room == NULL) {
        perror("calloc");
        exit(1);
    }
    return room;
}

/* Returns where a thread's part begins. The part of the next thread begins at its end. */
static inline long part_start(long whole, long thread)
{
    return whole * thread / thread_count;
}

/* Runs `work` in all threads, with their numbers, and waits for them. The first argument is the
 * number of threads. */
static inline void run_threads(int argc, char **argv, void *(*work)(void *))
{
    pthread_t threads[MOST_THREADS];
    if (argc > 1)
        thread_count = atoi(argv[1]);
    if (thread_count < 1 || thread_count > MOST_THREADS) {
        fprintf(stderr, "1 to %d threads\n", MOST_THREADS);
        exit(2);
    }
    pthread_barrier_init(&barrier, NULL, (unsigned)thread_count);
    for (long index = 0; index < thread_count; index++) {
        if (pthread_create(&threads[index], NULL, work, (void *)index) != 0) {
            perror("pthread_create");
            exit(1);
        }
    }
    for (int index = 0; index < thread_count; index++)
        pthread_join(threads[index], NULL);
}

#endif
