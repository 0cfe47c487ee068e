// A data race on purpose: the scheduler's timing loses increments, and replay must lose the same ones.
// flags: -pthread -O0
// group: threads
#include "check.h"
#include <pthread.h>

static volatile long counter;

static void *work(void *argument UNUSED) {
    for (int round = 0; round < 200000; round++) {
        counter++;
    }
    return NULL;
}

int main(void) {
    guard();
    pthread_t threads[4];
    for (int index = 0; index < 4; index++) {
        CHECK(pthread_create(&threads[index], NULL, work, NULL) == 0);
    }
    for (int index = 0; index < 4; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    CHECK(counter >= 2 && counter <= 800000);
    say("counted %ld\n", counter);
    return 0;
}
