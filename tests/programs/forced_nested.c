// Another signal interrupts a handler that computes for long.
// group: forced
// flags: -O1
#include "check.h"
#include <sys/time.h>

static volatile sig_atomic_t outer, inner;
static volatile unsigned long before_inner, before_outer;

static void on_inner(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    inner++;
}

static void on_outer(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    sig_atomic_t seen = inner;
    outer++;
    while (inner == seen) {
        before_inner++;
    }
}

int main(void) {
    handle(SIGPROF, on_outer, 0);
    // Both clocks count processor time, so the work stays the same on a busy machine.
    // Without the mask both could be delivered at one point. Then the outer handler, on top, would wait for the inner one below it.
    struct sigaction action = {.sa_sigaction = on_inner, .sa_flags = SA_SIGINFO};
    CHECK(sigemptyset(&action.sa_mask) == 0);
    CHECK(sigaddset(&action.sa_mask, SIGPROF) == 0);
    CHECK(sigaction(SIGVTALRM, &action, NULL) == 0);
    struct itimerval slow = {.it_interval = {0, 20000}, .it_value = {0, 5000}}, fast = {.it_interval = {0, 4000}, .it_value = {0, 4000}};
    CHECK(setitimer(ITIMER_VIRTUAL, &fast, NULL) == 0);
    CHECK(setitimer(ITIMER_PROF, &slow, NULL) == 0);
    while (outer < 3) {
        before_outer++;
    }
    CHECK(setitimer(ITIMER_VIRTUAL, &(struct itimerval){0}, NULL) == 0);
    say("outer %d inner %d: %lu %lu\n", outer, inner, before_outer, before_inner);
    return 0;
}
