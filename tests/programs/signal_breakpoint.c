// int3 and single faults with their codes: SIGTRAP, SIGFPE and SIGILL in handlers.
#include "check.h"
#include <setjmp.h>
#include <ucontext.h>

extern const char after_breakpoint[];
static volatile int traps;
static sigjmp_buf back;
static volatile siginfo_t seen;

static void on_trap(int number UNUSED, siginfo_t *info, void *context) {
    CHECK(info->si_code == SI_KERNEL);
    CHECK(((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] == (greg_t)(uintptr_t)after_breakpoint);
    traps++;
}

static void on_fault(int number UNUSED, siginfo_t *info, void *context UNUSED) {
    seen = *info;
    siglongjmp(back, 1);
}

int main(void) {
    handle(SIGTRAP, on_trap, 0);
    __asm__ volatile("int3\n.globl after_breakpoint\nafter_breakpoint:" ::: "memory");
    CHECK(traps == 1);
    handle(SIGFPE, on_fault, 0);
    handle(SIGILL, on_fault, 0);
    if (sigsetjmp(back, 1) == 0) {
        int quotient = 1;
        int rest = 0;
        int zero = 0;
        __asm__ volatile("idivl %2" : "+a"(quotient), "+d"(rest) : "r"(zero));
    }
    CHECK(seen.si_signo == SIGFPE && seen.si_code == FPE_INTDIV);
    say("division at %p\n", seen.si_addr);
    if (sigsetjmp(back, 1) == 0) {
        __asm__ volatile("ud2");
    }
    CHECK(seen.si_signo == SIGILL && seen.si_code == ILL_ILLOPN);
    if (sigsetjmp(back, 1) == 0) {
        // A privileged instruction.
        handle(SIGSEGV, on_fault, 0);
        __asm__ volatile("hlt");
    }
    CHECK(seen.si_signo == SIGSEGV && seen.si_code == SI_KERNEL);
    return 0;
}
