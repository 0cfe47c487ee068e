// A lock-free stack shared by four threads: compare-and-exchange with a counter against reuse.
// flags: -pthread
// group: threads
#include "check.h"
#include <pthread.h>

enum { NODES = 64, ROUNDS = 3000 };

static uint32_t next[NODES];
// The upper half counts, the lower half is the first node plus one.
static uint64_t head;

static void push(uint32_t node) {
    uint64_t old = __atomic_load_n(&head, __ATOMIC_ACQUIRE);
    uint64_t new;
    do {
        __atomic_store_n(&next[node], (uint32_t)old, __ATOMIC_RELAXED);
        new = ((old >> 32) + 1) << 32 | (node + 1);
    } while (!__atomic_compare_exchange_n(&head, &old, new, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
}

static int pop(void) {
    uint64_t old = __atomic_load_n(&head, __ATOMIC_ACQUIRE);
    uint64_t new;
    do {
        if ((uint32_t)old == 0) {
            return -1;
        }
        new = ((old >> 32) + 1) << 32 | __atomic_load_n(&next[(uint32_t)old - 1], __ATOMIC_RELAXED);
    } while (!__atomic_compare_exchange_n(&head, &old, new, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return (int)(uint32_t)old - 1;
}

static void *work(void *argument UNUSED) {
    uint64_t seen = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int node = pop();
        if (node >= 0) {
            seen = seen * 31 + node;
            push((uint32_t)node);
        }
    }
    return (void *)seen;
}

int main(void) {
    guard();
    for (uint32_t node = 0; node < NODES; node++) {
        push(node);
    }
    pthread_t threads[4];
    for (int index = 0; index < 4; index++) {
        CHECK(pthread_create(&threads[index], NULL, work, NULL) == 0);
    }
    for (int index = 0; index < 4; index++) {
        void *seen;
        CHECK(pthread_join(threads[index], &seen) == 0);
        say("%016lx\n", (unsigned long)seen);
    }
    int nodes = 0;
    for (; pop() >= 0; nodes++) {
    }
    CHECK(nodes == NODES);
    return 0;
}
