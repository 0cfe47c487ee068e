// Four threads count under a mutex, and the order of its owners is printed.
// flags: -pthread
// group: threads
#include "check.h"
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long count;
static uint64_t history;

static void *work(void *argument) {
    for (int round = 0; round < 5000; round++) {
        CHECK(pthread_mutex_lock(&mutex) == 0);
        count++;
        history = history * 1000003 + (long)argument;
        CHECK(pthread_mutex_unlock(&mutex) == 0);
    }
    return NULL;
}

int main(void) {
    guard();
    pthread_t threads[4];
    for (long index = 0; index < 4; index++) {
        CHECK(pthread_create(&threads[index], NULL, work, (void *)(index + 1)) == 0);
    }
    for (int index = 0; index < 4; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    CHECK(count == 20000);
    say("history %016lx\n", (unsigned long)history);
    return 0;
}
