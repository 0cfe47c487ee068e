// Two threads keep the state of their loops in objects: wherever one of them is stopped, registers and stack are the same in every round.
// group: forced
// flags: -O2 -pthread
#include "check.h"
#include <pthread.h>

#define ROUNDS 40000

struct cursor {
    long position;
    unsigned long sum;
};

static volatile long racy;

static __attribute__((noinline)) unsigned long same_in_every_round(void) {
    unsigned long value = 1;
    for (unsigned long index = 0; index < 3000; index++) {
        value = value * 31 + index;
        __asm__("" : "+r"(value));
    }
    return value;
}

static __attribute__((noinline)) int step(struct cursor *cursor) {
    cursor->sum += same_in_every_round();
    racy++;
    return ++cursor->position < ROUNDS;
}

static void *work(void *argument) {
    while (step(argument)) {
    }
    return NULL;
}

int main(void) {
    guard();
    struct cursor *cursors[2];
    pthread_t threads[2];
    for (int index = 0; index < 2; index++) {
        cursors[index] = calloc(1, sizeof *cursors[index]);
        CHECK(cursors[index] != NULL);
        CHECK(pthread_create(&threads[index], NULL, work, cursors[index]) == 0);
    }
    // What the other threads have done when this one wakes up differs in each run, and must be the same at replay.
    // It may even be less than before: a thread stopped between its load and its store loses the other's increments.
    for (int look = 0; look < 20; look++) {
        usleep(1000);
        say("%ld %ld %ld\n", racy, cursors[0]->position, cursors[1]->position);
    }
    for (int index = 0; index < 2; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
        CHECK(cursors[index]->position == ROUNDS);
    }
    say("%lx\n", cursors[0]->sum + cursors[1]->sum);
    return 0;
}
