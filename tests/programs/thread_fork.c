// fork in a program with threads: the child has one, memory is copied, and both sides go on.
// flags: -pthread
// group: threads
#include "check.h"
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int stop;
static unsigned long count;

static void *work(void *argument UNUSED) {
    while (!stop) {
        pthread_mutex_lock(&mutex);
        count++;
        pthread_mutex_unlock(&mutex);
        usleep(50);
    }
    return NULL;
}

static void *forks(void *argument UNUSED) {
    for (int round = 0; round < 5; round++) {
        pthread_mutex_lock(&mutex);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            CHECK(syscall(SYS_gettid) == getpid());
            unsigned long before = count;
            usleep(500);
            _exit(count == before ? round : 99);
        }
        pthread_mutex_unlock(&mutex);
        expect_exit(child, round);
        say("child %d\n", child);
    }
    return NULL;
}

int main(void) {
    guard();
    pthread_t worker;
    pthread_t forker;
    CHECK(pthread_create(&worker, NULL, work, NULL) == 0 && pthread_create(&forker, NULL, forks, NULL) == 0);
    CHECK(pthread_join(forker, NULL) == 0);
    stop = 1;
    CHECK(pthread_join(worker, NULL) == 0);
    say("counted %lu\n", count);
    return 0;
}
