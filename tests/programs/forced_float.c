// Loops in which only a vector register, or only the x87 stack, differs from round to round.
// group: forced
// flags: -O2
#include "check.h"
#include <sys/time.h>

static volatile sig_atomic_t rung;

static void on_alarm(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    rung++;
}

int main(void) {
    handle(SIGALRM, on_alarm, 0);
    struct itimerval timer = {.it_interval = {0, 6000}, .it_value = {0, 6000}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    double sum = 0;
    while (rung < 3) {
        sum += 1.0;
        __asm__ volatile("" : "+x"(sum));
    }
    say("sum %.0f\n", sum);
    while (rung < 6) {
        sum *= 1.0000001;
        __asm__ volatile("" : "+x"(sum));
    }
    say("product %a\n", sum);
    return 0;
}
