// A fault inside the handler of the same fault: the signal is blocked there, so the kernel kills.
// signal: SEGV
// output: same
// stdout: ^in the handler$
#include "check.h"

static void on_fault(int number UNUSED, siginfo_t *info, void *context UNUSED) {
    say("in the handler\n");
    *(volatile char *)info->si_addr = 1;
}

int main(void) {
    handle(SIGSEGV, on_fault, 0);
    *(volatile char *)16 = 1;
    return 0;
}
