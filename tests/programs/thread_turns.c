// Threads of one process run their own code one at a time, and their system calls overlap (docs/LIMITS.md).
// modes: record replay slow
// flags: -pthread
#include "check.h"
#include <pthread.h>
#include <time.h>

enum { THREADS = 3, ROUNDS = 8000, LOOKS = 40000, PAUSE_MS = 300 };

static volatile int inside;
static volatile int disturbed;

/* A thread that computes writes its own number into `inside`. */
static void *compute(void *number) {
    int mine = (int)(intptr_t)number;
    for (int round = 0; round < ROUNDS; round++) {
        int others = 0;
        inside = mine;
        for (int look = 0; look < LOOKS; look++) {
            others |= inside != mine;
        }
        disturbed += others;
    }
    return NULL;
}

static void *pause_once(void *unused) {
    struct timespec pause = {0, PAUSE_MS * 1000000};
    CHECK(nanosleep(&pause, NULL) == 0);
    return unused;
}

static void run(void *(*body)(void *)) {
    pthread_t threads[THREADS];
    for (intptr_t number = 0; number < THREADS; number++) {
        CHECK(pthread_create(&threads[number], NULL, body, (void *)number) == 0);
    }
    for (int number = 0; number < THREADS; number++) {
        CHECK(pthread_join(threads[number], NULL) == 0);
    }
}

static long milliseconds(void) {
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int main(void) {
    run(compute);
    // From time to time a turn ends within a round.
    say("%d of %d rounds were disturbed\n", disturbed, THREADS * ROUNDS);
    CHECK(disturbed < THREADS * ROUNDS / 20);
    long start = milliseconds();
    run(pause_once);
    CHECK(milliseconds() - start < THREADS * PAUSE_MS * 2 / 3);
    return 0;
}
