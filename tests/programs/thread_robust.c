// A thread that dies with a robust lock passes it on; in the same process, and to another process through shared memory.
// flags: -pthread
// output: same
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

static void make(pthread_mutex_t *mutex, int shared) {
    pthread_mutexattr_t attributes;
    CHECK(pthread_mutexattr_init(&attributes) == 0 && pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
    CHECK(pthread_mutexattr_setpshared(&attributes, shared) == 0 && pthread_mutex_init(mutex, &attributes) == 0);
}

static void *hold(void *mutex) {
    CHECK(pthread_mutex_lock(mutex) == 0);
    return NULL;
}

static void take_over(pthread_mutex_t *mutex) {
    CHECK(pthread_mutex_lock(mutex) == EOWNERDEAD);
    CHECK(pthread_mutex_consistent(mutex) == 0 && pthread_mutex_unlock(mutex) == 0);
    CHECK(pthread_mutex_lock(mutex) == 0 && pthread_mutex_unlock(mutex) == 0);
}

int main(void) {
    guard();
    static pthread_mutex_t own;
    pthread_t thread;
    make(&own, PTHREAD_PROCESS_PRIVATE);
    CHECK(pthread_create(&thread, NULL, hold, &own) == 0 && pthread_join(thread, NULL) == 0);
    take_over(&own);
    pthread_mutex_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    make(shared, PTHREAD_PROCESS_SHARED);
    for (int way = 0; way < 3; way++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            hold(shared);
            if (way == 1) {
                abort();
            }
            if (way == 2) {
                *(volatile int *)8 = 1;
            }
            _exit(3);
        }
        wait_for(child);
        take_over(shared);
        say("way %d\n", way);
    }
    return 0;
}
