// A handler and the loop that it interrupts often change the same variables, without a system call in between.
// group: forced
// flags: -O1
#include "check.h"
#include <sys/time.h>

#define TICKS 100

static volatile unsigned long state = 1;
static volatile sig_atomic_t ticks;

static void on_alarm(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    state ^= 0x9e3779b97f4a7c15u + (unsigned long)ticks;
    ticks++;
}

int main(void) {
    handle(SIGALRM, on_alarm, 0);
    struct itimerval timer = {.it_interval = {0, 1000}, .it_value = {0, 1000}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    while (ticks < TICKS) {
        state = state * 6364136223846793005u + 1442695040888963407u;
    }
    say("state %lx\n", state);
    return 0;
}
