// A thread spins on a variable without calling the kernel until another thread sets it.
// flags: -pthread
// group: threads
#include "check.h"
#include <pthread.h>

static volatile int ready;
static volatile unsigned long spins;

static void *spin(void *argument UNUSED) {
    while (!ready) {
        spins++;
    }
    return NULL;
}

int main(void) {
    guard();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, spin, NULL) == 0);
    // Wait until it surely spins.
    while (spins == 0) {
        usleep(100);
    }
    ready = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    say("%lu spins\n", spins);
    return 0;
}
