// Each thread has its own copy of thread-local variables, its own errno, and its own keys with destructors.
// flags: -pthread
// group: threads
// output: same
#include "check.h"
#include <pthread.h>

static __thread int own = 5;
static pthread_key_t key;
static int destroyed;

static void destroy(void *value) {
    __atomic_add_fetch(&destroyed, (int)(long)value, __ATOMIC_SEQ_CST);
}

static void *work(void *argument) {
    long number = (long)argument;
    CHECK(own == 5);
    own = (int)number;
    CHECK(pthread_setspecific(key, (void *)number) == 0);
    errno = 0;
    CHECK(close(5000 + (int)number) == -1 && errno == EBADF);
    for (int round = 0; round < 100; round++) {
        sched_yield();
        CHECK(own == number && pthread_getspecific(key) == (void *)number && errno == EBADF);
    }
    return NULL;
}

int main(void) {
    guard();
    CHECK(pthread_key_create(&key, destroy) == 0);
    pthread_t threads[4];
    for (long index = 0; index < 4; index++) {
        CHECK(pthread_create(&threads[index], NULL, work, (void *)(index + 1)) == 0);
    }
    for (int index = 0; index < 4; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    CHECK(own == 5 && destroyed == 10);
    say("destroyed %d\n", destroyed);
    return 0;
}
