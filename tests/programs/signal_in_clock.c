// Signals arrive while a program only reads the clock, through the vDSO if there is one: each call that a signal precedes is made
// after the signal.
#include "check.h"
#include <sys/time.h>
#include <time.h>

static volatile sig_atomic_t rung;

static void on_alarm(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    rung++;
}

int main(void) {
    handle(SIGALRM, on_alarm, SA_RESTART);
    struct itimerval timer = {.it_interval = {0, 500}, .it_value = {0, 500}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    struct timespec now, before = {0, 0};
    long calls = 0;
    for (; rung < 100; calls++) {
        CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
        CHECK(now.tv_sec > before.tv_sec || (now.tv_sec == before.tv_sec && now.tv_nsec >= before.tv_nsec));
        before = now;
    }
    say("%ld\n", calls);
    return 0;
}
