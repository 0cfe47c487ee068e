// A handler reads which parts of the processor's state are in use, as the dynamic linker does when it saves them on the stack. Whether other
// signals were deferred meanwhile must not show at replay.
// group: signals
#include "check.h"
#include <cpuid.h>
#include <sys/time.h>

enum { ROUNDS = 40, SPINS = 400000 };

static unsigned in_use;

static void on_tick(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {}

static void look(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    unsigned low, high;
    for (volatile int spins = 0; spins < SPINS; spins++) {
    }
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
    in_use = low & 3;
}

int main(void) {
    unsigned eax, ebx, ecx, edx;
    if (!__get_cpuid_count(13, 1, &eax, &ebx, &ecx, &edx) || !(eax & 4)) {
        say("this processor does not tell\n");
        return 0;
    }
    handle(SIGALRM, on_tick, SA_RESTART);
    handle(SIGUSR1, look, 0);
    struct itimerval timer = {.it_interval = {0, 700}, .it_value = {0, 700}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(kill(getpid(), SIGUSR1) == 0);
        say("%u", in_use);
    }
    say("\n");
    return 0;
}
