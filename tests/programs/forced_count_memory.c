// The count is only in memory, far from the stack: the registers are the same in all rounds of the loop.
// group: forced
// flags: -O2
#include "check.h"
#include <sys/time.h>

static volatile sig_atomic_t rung;
static volatile unsigned long direct;

static void on_alarm(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    rung++;
}

int main(void) {
    volatile unsigned long *far = malloc(100000);
    CHECK(far != NULL);
    far += 5000;
    *far = 0;
    handle(SIGALRM, on_alarm, 0);
    struct itimerval timer = {.it_interval = {0, 6000}, .it_value = {0, 6000}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    while (rung < 3) {
        __asm__ volatile("addq $1, %0" : "+m"(direct));
    }
    say("direct %lu\n", direct);
    while (rung < 6) {
        __asm__ volatile("incq (%0)" : : "r"(far) : "memory");
    }
    say("far %lu\n", *far);
    return 0;
}
