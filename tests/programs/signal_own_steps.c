// A program that sets the trap flag sees a step for each of its instructions, and one for a system call: its handler gets the address of each.
// output: same
// modes: native record replay slow
// flags: -O1
#include "check.h"
#include <ucontext.h>

static volatile int steps;
static volatile uintptr_t places[64];

static void handler(int number, siginfo_t *info, void *context) {
    ucontext_t *user = context;
    uintptr_t at = (uintptr_t)user->uc_mcontext.gregs[REG_RIP];
    (void)number;
    if (info->si_code != TRAP_TRACE || (uintptr_t)info->si_addr != at) {
        _exit(3);
    }
    if (steps < 64) {
        places[steps] = at;
    }
    steps++;
}

#define STEPPED(code, ...)                                                                               \
    __asm__ volatile("lea 1f(%%rip), %%rbx\n pushfq\n orl $0x100, (%%rsp)\n popfq\n1: " code                \
                     "\n pushfq\n andl $~0x100, (%%rsp)\n popfq\n"                                        \
                     : [base] "=&b"(base)                                                                \
                     :                                                                                   \
                     : "rax", "rcx", "rdx", "rdi", "rsi", "r11", "memory", "cc")

static void report(const char *what, uintptr_t base) {
    say("%s: %d:", what, steps);
    for (int step = 0; step < steps && step < 64; step++) {
        say(" %ld", (long)(places[step] - base));
    }
    say("\n");
    steps = 0;
}

int main(void) {
    uintptr_t base;
    handle(SIGTRAP, handler, 0);
    STEPPED("nop\n nop\n inc %%rax\n nop");
    report("plain", base);
    // The trap after `syscall` comes behind the instruction that follows it.
    STEPPED("mov $110, %%eax\n syscall\n nop\n nop");
    report("call", base);
    STEPPED("mov $110, %%eax\n syscall\n mov $110, %%eax\n syscall\n nop");
    report("calls", base);
    STEPPED("xor %%ecx, %%ecx\n1: inc %%ecx\n cmp $3, %%ecx\n jne 1b");
    report("loop", base);
    // The number of steps for a counter is open, but they end behind it.
    STEPPED("nop\n nop\n nop\n nop\n rdtsc\n nop\n nop\n nop\n nop");
    CHECK(steps >= 2);
    steps = 0;
    uint64_t flags;
    __asm__ volatile("pushfq; popq %0" : "=r"(flags));
    CHECK(!(flags & 0x100));
    return 0;
}
