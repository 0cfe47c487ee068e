// Cancelling a thread that is blocked in the kernel; its cleanup handlers run.
// flags: -pthread
// group: threads
// output: same
// calls: varies
#include "check.h"
#include <pthread.h>

static int ends[2];
static int cleaned;

static void clean(void *argument) {
    cleaned += *(int *)argument;
}

static void *work(void *argument UNUSED) {
    int amount = 3;
    pthread_cleanup_push(clean, &amount);
    char byte;
    read(ends[0], &byte, 1);
    pthread_cleanup_pop(0);
    return NULL;
}

int main(void) {
    guard();
    CHECK(pipe(ends) == 0);
    for (int round = 0; round < 10; round++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
        if (round % 2 == 0) {
            usleep(1000);
        }
        void *result;
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    }
    // A thread that was cancelled before it began may have nothing to clean up.
    CHECK(cleaned <= 30 && cleaned % 3 == 0);
    say("all cancelled\n");
    return 0;
}
