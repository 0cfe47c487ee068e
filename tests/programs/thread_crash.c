// A fault in one of several threads kills the process.
// flags: -pthread
// group: threads
// signal: SEGV
#include "check.h"
#include <pthread.h>

static _Noreturn void *sleep_on(void *argument UNUSED) {
    for (;;) {
        pause();
    }
}

static void *crash(void *argument UNUSED) {
    usleep(1000);
    say("thread %ld crashes\n", syscall(SYS_gettid));
    *(volatile int *)24 = 1;
    return NULL;
}

int main(void) {
    guard();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, sleep_on, NULL) == 0 && pthread_create(&thread, NULL, crash, NULL) == 0);
    sleep_on(NULL);
}
