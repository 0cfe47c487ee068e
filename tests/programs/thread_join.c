// Threads are created, return values, and are joined.
// flags: -pthread
// group: threads
#include "check.h"
#include <pthread.h>

static void *square(void *argument) {
    long value = (long)argument;
    say("thread %ld is %ld at %p\n", value, syscall(SYS_gettid), (void *)&value);
    return (void *)(value * value);
}

int main(void) {
    guard();
    pthread_t threads[8];
    for (long index = 0; index < 8; index++) {
        CHECK(pthread_create(&threads[index], NULL, square, (void *)index) == 0);
    }
    for (long index = 0; index < 8; index++) {
        void *result;
        CHECK(pthread_join(threads[index], &result) == 0 && (long)result == index * index);
    }
    return 0;
}
