// A loop without system calls counts in a local variable until a signal's handler stops it; the count must come out the same.
// group: forced
// flags: -O0
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
    for (int round = 1; round <= 5; round++) {
        unsigned long count = 0;
        while (rung < round) {
            count++;
        }
        say("count %lu\n", count);
    }
    return 0;
}
