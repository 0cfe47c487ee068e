// A process that already has threads maps memory and shares it with children: all of them race for it, and the threads also for private memory.
// flags: -pthread -O0
// group: sharing
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

enum { THREADS = 2, CHILDREN = 2, ROUNDS = 20000, CALL_EVERY = 256 };

static volatile uint64_t own;
static volatile uint64_t *volatile shared;

static void race(volatile uint64_t *value, uint64_t number) {
    for (int round = 0; round < ROUNDS; round++) {
        *value = *value * 31 + number;
        if (round % CALL_EVERY == 0) {
            sched_yield();
        }
    }
}

static void *work(void *argument) {
    race(&own, (uintptr_t)argument);
    while (shared == NULL) {
        sched_yield();
    }
    race(shared, (uintptr_t)argument);
    return NULL;
}

static pid_t start_child(int index) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        race(shared, 100 + (unsigned)index);
        _exit(0);
    }
    return child;
}

int main(void) {
    guard();
    pthread_t threads[THREADS];
    for (uintptr_t index = 0; index < THREADS; index++) {
        CHECK(pthread_create(&threads[index], NULL, work, (void *)(index + 1)) == 0);
    }
    race(&own, 7);
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    shared = memory;
    pid_t children[CHILDREN];
    for (int index = 0; index < CHILDREN; index++) {
        children[index] = start_child(index);
    }
    for (int index = 0; index < THREADS; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    for (int index = 0; index < CHILDREN; index++) {
        expect_exit(children[index], 0);
    }
    say("own %016lx, shared %016lx\n", (unsigned long)own, (unsigned long)*shared);
    return 0;
}
