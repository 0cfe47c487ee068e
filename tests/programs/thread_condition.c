// A bounded queue between two producers and two consumers, with condition variables.
// flags: -pthread
// group: threads
#include "check.h"
#include <pthread.h>

enum { SLOTS = 4, ITEMS = 1000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER;
static int queue[SLOTS];
static int used;
static int taken;
static long sum;

static void *produce(void *argument) {
    for (int item = 0; item < ITEMS; item++) {
        pthread_mutex_lock(&mutex);
        while (used == SLOTS) {
            pthread_cond_wait(&not_full, &mutex);
        }
        queue[used++] = item + (int)(long)argument;
        pthread_cond_signal(&not_empty);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void *consume(void *argument UNUSED) {
    uint64_t seen = 0;
    pthread_mutex_lock(&mutex);
    while (taken < 2 * ITEMS) {
        if (used == 0) {
            pthread_cond_wait(&not_empty, &mutex);
            continue;
        }
        int item = queue[--used];
        taken++;
        sum += item;
        seen = seen * 31 + item;
        pthread_cond_signal(&not_full);
    }
    // The consumer that takes the last item wakes the other one.
    pthread_cond_broadcast(&not_empty);
    pthread_mutex_unlock(&mutex);
    say("consumer saw %016lx\n", (unsigned long)seen);
    return NULL;
}

int main(void) {
    guard();
    pthread_t threads[4];
    for (long index = 0; index < 4; index++) {
        CHECK(pthread_create(&threads[index], NULL, index < 2 ? produce : consume, (void *)(index * 10000)) == 0);
    }
    for (int index = 0; index < 4; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    CHECK(sum == 2l * ITEMS * (ITEMS - 1) / 2 + 10000l * ITEMS);
    return 0;
}
