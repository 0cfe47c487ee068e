// A timer that interrupts a loop without any system call: the handler must run there, or the loop never ends.
// group: forced
#include "check.h"
#include <sys/time.h>

static volatile sig_atomic_t rung;
static volatile unsigned long spins;

static void on_alarm(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    rung++;
}

int main(void) {
    handle(SIGALRM, on_alarm, 0);
    struct itimerval timer = {.it_interval = {0, 3000}, .it_value = {0, 3000}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    unsigned long previous = 0;
    for (int round = 1; round <= 3; round++) {
        while (rung < round) {
            spins++;
        }
        // Prints where it was interrupted: replay must interrupt at the same instruction.
        say("after %lu spins\n", spins - previous);
        previous = spins;
    }
    return 0;
}
