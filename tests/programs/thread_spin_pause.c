// Threads take turns by spinning: on a lock of tickets, on a queue of waiting threads, on plain
// loads with and without `pause`, and at a barrier. There are more threads than cores, and each
// must wait for one that waits for the baton. Natively that takes as long as the threads' slices of
// the cores.
// modes: record replay
// flags: -pthread -O2
// group: threads
#include "check.h"
#include <pthread.h>

enum { THREADS = 6, ROUNDS = 150 };

struct node {
    struct node *next;
    int waits;
};

static unsigned ticket, serving;
static struct node *tail;
static int turn, arrived, sense;
static unsigned long passed, served, queued, seen[THREADS];

#define LOAD(word) __atomic_load_n(&(word), __ATOMIC_ACQUIRE)
#define STORE(word, value) __atomic_store_n(&(word), (value), __ATOMIC_RELEASE)

static unsigned long by_ticket(void) {
    unsigned mine = __atomic_fetch_add(&ticket, 1, __ATOMIC_ACQ_REL);
    while (LOAD(serving) != mine) {
        __builtin_ia32_pause();
    }
    unsigned long result = served++;
    STORE(serving, mine + 1);
    return result;
}

static unsigned long in_queue(void) {
    struct node mine = {NULL, 1};
    struct node *before = __atomic_exchange_n(&tail, &mine, __ATOMIC_ACQ_REL);
    if (before) {
        STORE(before->next, &mine);
        while (LOAD(mine.waits)) {
            __builtin_ia32_pause();
        }
    }
    unsigned long result = queued++;
    struct node *last = &mine;
    if (!__atomic_compare_exchange_n(&tail, &last, NULL, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        while (!LOAD(mine.next)) {
        }
        STORE(mine.next->waits, 0);
    }
    return result;
}

static void meet(int *mine) {
    *mine = !*mine;
    if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == THREADS) {
        arrived = 0;
        STORE(sense, *mine);
        return;
    }
    for (unsigned round = 0; LOAD(sense) != *mine; round++) {
        __builtin_ia32_pause();
    }
}

static void *work(void *argument) {
    int me = (int)(long)argument, mine = 0;
    for (int round = 0; round < ROUNDS; round++) {
        while (LOAD(turn) != me) {
        }
        passed++;
        STORE(turn, (me + 1) % THREADS);
        seen[me] = seen[me] * 31 + by_ticket();
        seen[me] = seen[me] * 31 + in_queue();
        meet(&mine);
    }
    return NULL;
}

int main(void) {
    guard();
    pthread_t threads[THREADS];
    for (long index = 0; index < THREADS; index++) {
        CHECK(pthread_create(&threads[index], NULL, work, (void *)index) == 0);
    }
    for (int index = 0; index < THREADS; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
        say("%lx\n", seen[index]);
    }
    CHECK(passed == THREADS * ROUNDS && served == passed && queued == passed);
    return 0;
}
