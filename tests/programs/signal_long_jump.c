// siglongjmp out of handlers, with and without the mask, many times, also out of faults.
// output: same
#include "check.h"
#include <setjmp.h>

static sigjmp_buf back;

static void on_signal(int number, siginfo_t *info UNUSED, void *context UNUSED) {
    siglongjmp(back, number);
}

int main(void) {
    handle(SIGUSR1, on_signal, 0);
    handle(SIGSEGV, on_signal, 0);
    volatile int jumps = 0;
    for (volatile int round = 0; round < 200; round++) {
        int number = sigsetjmp(back, 1);
        if (number == 0) {
            if (round % 2 == 0) {
                raise(SIGUSR1);
            } else {
                *(volatile int *)8 = 1;
            }
            CHECK(!"not reached");
        }
        CHECK(number == (round % 2 == 0 ? SIGUSR1 : SIGSEGV));
        jumps++;
    }
    // Without the mask the signal stays blocked.
    if (sigsetjmp(back, 0) == 0) {
        raise(SIGUSR1);
    }
    sigset_t mask;
    CHECK(sigprocmask(SIG_SETMASK, NULL, &mask) == 0 && sigismember(&mask, SIGUSR1) == 1);
    CHECK(raise(SIGUSR1) == 0);
    say("%d jumps\n", jumps);
    return 0;
}
