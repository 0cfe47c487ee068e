// Threads race on a counter that a signal handler increments too, in unoptimised code, while one of them never calls the kernel.
// flags: -pthread -O0
// group: threads
#include "check.h"
#include <pthread.h>
#include <sys/time.h>

enum { THREADS = 3, TICKS = 60 };

static volatile unsigned long counter;
static volatile sig_atomic_t ticks;

static void on_alarm(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    counter++;
    ticks++;
}

static void *work(void *argument UNUSED) {
    while (ticks < TICKS) {
        counter++;
    }
    return NULL;
}

int main(void) {
    handle(SIGALRM, on_alarm, SA_RESTART);
    pthread_t threads[THREADS];
    for (int index = 0; index < THREADS; index++) {
        CHECK(pthread_create(&threads[index], NULL, work, NULL) == 0);
    }
    struct itimerval timer = {.it_interval = {0, 2000}, .it_value = {0, 2000}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    work(NULL);
    for (int index = 0; index < THREADS; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    say("counted %lu\n", counter);
    return 0;
}
