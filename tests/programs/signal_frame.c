// What the handler finds on its stack: mask, stack, trap number and floating-point state, digested for replay to compare.
#include "check.h"
#include <ucontext.h>

static void on_signal(int number, siginfo_t *info, void *context) {
    ucontext_t *state = context;
    char local;
    say("signal %d flags %lx stack %p registers %016lx\n", number, state->uc_flags, (void *)&local,
        (unsigned long)digest(state->uc_mcontext.gregs, sizeof state->uc_mcontext.gregs));
    say("information %016lx\n", (unsigned long)digest(info, sizeof *info));
    CHECK(state->uc_mcontext.fpregs);
    // The first 512 bytes: the legacy area.
    say("vector state %016lx\n", (unsigned long)digest(state->uc_mcontext.fpregs, 512));
    CHECK(((uintptr_t)state->uc_mcontext.fpregs & 63) == 0);
    CHECK(((uintptr_t)__builtin_frame_address(0) & 15) == 0);
}

int main(void) {
    handle(SIGUSR1, on_signal, 0);
    handle(SIGSEGV, on_signal, SA_RESETHAND);
    CHECK(raise(SIGUSR1) == 0);
    volatile double sum = 0;
    for (int index = 1; index < 100; index++) {
        sum += 1.0 / index;
    }
    CHECK(raise(SIGUSR1) == 0 && kill(getpid(), SIGUSR1) == 0);
    CHECK(raise(SIGSEGV) == 0);
    return 0;
}
