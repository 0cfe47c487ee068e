// A handler entered at a system call sees its number, result and address, and may change the result.
#include "check.h"
#include <ucontext.h>

extern const char after_call[];
static volatile greg_t seen_rip;
static volatile greg_t seen_rax;

static void on_signal(int number UNUSED, siginfo_t *info UNUSED, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    seen_rip = registers[REG_RIP];
    seen_rax = registers[REG_RAX];
    CHECK(registers[REG_RBX] == 0x1111 && registers[REG_R12] == 0x2222);
    registers[REG_RAX] = 4321;
}

int main(void) {
    handle(SIGUSR1, on_signal, 0);
    long result;
    register long r12 __asm__("r12") = 0x2222;
    __asm__ volatile("syscall\n"
                     ".globl after_call\n"
                     "after_call:"
                     : "=a"(result)
                     : "a"(SYS_kill), "D"(getpid()), "S"(SIGUSR1), "b"(0x1111l), "r"(r12)
                     : "rcx", "r11", "memory");
    CHECK(seen_rip == (greg_t)(uintptr_t)after_call);
    CHECK(seen_rax == 0 && result == 4321);
    say("interrupted at %lx\n", (unsigned long)seen_rip);
    return 0;
}
