// Threads copy over the same bytes with repeated string instructions, and read what the others left.
// flags: -pthread -O0
// group: threads
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, BYTES = 1 << 16, ROUNDS = 8000 };

static char shared[BYTES];
static volatile uint64_t seen;

static void copy(void *target, const void *source, size_t bytes) {
    __asm__ volatile("rep movsb" : "+D"(target), "+S"(source), "+c"(bytes) : : "memory");
}

static void *work(void *argument) {
    static _Thread_local char own[BYTES];
    memset(own, (int)(uintptr_t)argument, sizeof own);
    for (int round = 0; round < ROUNDS; round++) {
        copy(shared, own, BYTES);
        own[round] ^= shared[BYTES - 1 - round];
        seen = seen * 31 + (unsigned char)shared[round];
    }
    return NULL;
}

int main(void) {
    guard();
    pthread_t threads[THREADS];
    for (uintptr_t index = 0; index < THREADS; index++) {
        CHECK(pthread_create(&threads[index], NULL, work, (void *)(index + 1)) == 0);
    }
    for (int index = 0; index < THREADS; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    say("seen %016lx, left %016lx\n", (unsigned long)seen, (unsigned long)digest(shared, sizeof shared));
    return 0;
}
