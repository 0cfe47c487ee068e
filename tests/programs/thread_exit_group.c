// One thread ends the process while others compute, sleep and hold locks.
// flags: -pthread
// group: threads
// status: 44
#include "check.h"
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned long spins;

static _Noreturn void *compute(void *argument UNUSED) {
    for (;;) {
        spins++;
    }
}

static _Noreturn void *sleep_on(void *argument UNUSED) {
    for (;;) {
        pause();
    }
}

static void *lock(void *argument UNUSED) {
    pthread_mutex_lock(&mutex);
    return NULL;
}

int main(void) {
    guard();
    pthread_t thread;
    CHECK(pthread_mutex_lock(&mutex) == 0);
    CHECK(pthread_create(&thread, NULL, sleep_on, NULL) == 0 && pthread_create(&thread, NULL, lock, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, compute, NULL) == 0);
    while (spins == 0) {
        usleep(100);
    }
    say("process %d leaves\n", getpid());
    _exit(44);
}
