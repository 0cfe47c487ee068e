// Handlers that change the interrupted registers: skipping a faulting instruction, correcting a pointer, changing the mask.
// output: same
#include "check.h"
#include <ucontext.h>

static int value = 31;
static volatile int calls;

static void on_fault(int number, siginfo_t *info UNUSED, void *context) {
    ucontext_t *state = context;
    greg_t *registers = state->uc_mcontext.gregs;
    calls++;
    if (number == SIGILL) {
        // ud2 is two bytes long.
        registers[REG_RIP] += 2;
        registers[REG_RAX] = 1234;
    } else {
        registers[REG_RDI] = (greg_t)(uintptr_t)&value;
        sigaddset(&state->uc_sigmask, SIGHUP);
    }
}

int main(void) {
    handle(SIGILL, on_fault, 0);
    handle(SIGSEGV, on_fault, 0);
    long result = 0;
    __asm__ volatile("ud2" : "+a"(result));
    CHECK(result == 1234 && calls == 1);
    int loaded = 0;
    uintptr_t pointer = 8;
    __asm__ volatile("movl (%%rdi), %0" : "=r"(loaded), "+D"(pointer) : : "memory");
    CHECK(loaded == 31 && calls == 2 && pointer == (uintptr_t)&value);
    sigset_t mask;
    CHECK(sigprocmask(SIG_SETMASK, NULL, &mask) == 0 && sigismember(&mask, SIGHUP) == 1);
    say("%d calls\n", calls);
    return 0;
}
