/* Threads that compute beside each other, with a barrier now and then; the first argument is how long, in millions of steps. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 2, PHASES = 20 };

static pthread_barrier_t barrier;
static uint64_t results[THREADS][8], steps;

static void *compute(void *argument)
{
    size_t who = (size_t)argument;
    uint64_t state = who + 1;
    for (int phase = 0; phase < PHASES; phase++) {
        for (uint64_t step = 0; step < steps / PHASES; step++)
            state = (state ^ state >> 7) * 0x9e3779b97f4a7c15;
        results[who][0] = state;
        pthread_barrier_wait(&barrier);
        state += results[(who + 1) % THREADS][0];
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(int argument_count, char **arguments)
{
    pthread_t threads[THREADS];
    steps = (argument_count > 1 ? strtoull(arguments[1], NULL, 10) : 20) * 1000000;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (size_t who = 0; who < THREADS; who++)
        pthread_create(&threads[who], NULL, compute, (void *)who);
    for (int who = 0; who < THREADS; who++)
        pthread_join(threads[who], NULL);
    printf("%016llx\n", (unsigned long long)(results[0][0] ^ results[1][0]));
    return 0;
}
