// alarm and setitimer: real time that interrupts a pause, several times.
#include "check.h"
#include <sys/time.h>

static volatile sig_atomic_t ticks;

static void on_alarm(int number UNUSED, siginfo_t *info, void *context UNUSED) {
    CHECK(info->si_code == SI_KERNEL);
    ticks++;
}

int main(void) {
    handle(SIGALRM, on_alarm, 0);
    struct itimerval timer = {.it_interval = {0, 2000}, .it_value = {0, 2000}};
    struct itimerval old;
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    while (ticks < 5) {
        // The tick may come between the test and the pause: the next one wakes it.
        CHECK_FAILS(pause(), EINTR);
    }
    memset(&timer, 0, sizeof timer);
    CHECK(setitimer(ITIMER_REAL, &timer, &old) == 0 && old.it_interval.tv_usec == 2000);
    CHECK(getitimer(ITIMER_REAL, &timer) == 0 && timer.it_value.tv_usec == 0);
    CHECK(alarm(50) == 0);
    unsigned left = alarm(0);
    CHECK(left >= 49 && left <= 50);
    say("%d ticks, %ld us were left\n", (int)ticks, (long)old.it_value.tv_usec);
    return 0;
}
