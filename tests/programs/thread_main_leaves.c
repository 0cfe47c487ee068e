// The first thread ends; the others go on, and the last decides the status.
// flags: -pthread
// group: threads
// status: 33
#include "check.h"
#include <pthread.h>

static pthread_t first;

static void *work(void *argument UNUSED) {
    CHECK(pthread_join(first, NULL) == 0);
    CHECK(syscall(SYS_gettid) != getpid());
    say("thread %ld of %d goes on\n", syscall(SYS_gettid), getpid());
    exit(33);
}

int main(void) {
    guard();
    first = pthread_self();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
    pthread_exit(NULL);
}
