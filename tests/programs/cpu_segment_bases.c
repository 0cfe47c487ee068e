// The processor's base registers: %gs belongs to the runtime, so the kernel's offer of instructions for them is hidden, and a program that uses them anyway dies of SIGILL; %fs works as usual.
// modes: record replay slow
// flags: -O1
// stdout: ^segments$
#include "check.h"
#include <asm/prctl.h>
#include <sys/auxv.h>

#define FSGSBASE 2

static void ends_with_illegal(void (*use)(void)) {
    pid_t child = fork();
    if (child == 0) {
        use();
        _exit(0);
    }
    expect_killed(child, SIGILL);
}

static void write_base(void) {
    static char block[64];
    __asm__ volatile("wrgsbase %0" : : "r"(block));
}

static void read_base(void) {
    uint64_t base;
    __asm__ volatile("rdgsbase %%r9\n mov %%r9, %0" : "=r"(base) : : "r9");
}

static volatile int caught;

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    caught = info->si_code == ILL_ILLOPN && *(unsigned char *)info->si_addr == 0xf3;
    _exit(caught ? 7 : 8);
}

int main(void) {
    CHECK(!(getauxval(AT_HWCAP2) & FSGSBASE));
    ends_with_illegal(write_base);
    ends_with_illegal(read_base);
    pid_t child = fork();
    if (child == 0) {
        handle(SIGILL, handler, 0);
        write_base();
        _exit(0);
    }
    expect_exit(child, 7);
    unsigned long base = 1, thread = 0, self;
    CHECK(syscall(SYS_arch_prctl, ARCH_GET_GS, &base) == 0 && base == 0);
    CHECK_FAILS(syscall(SYS_arch_prctl, ARCH_GET_GS, 1), EFAULT);
    CHECK_FAILS(syscall(SYS_arch_prctl, ARCH_SET_GS, &base), EPERM);
    CHECK(syscall(SYS_arch_prctl, ARCH_SET_GS, 0) == 0);
    __asm__("mov %%fs:0, %0" : "=r"(self));
    CHECK(syscall(SYS_arch_prctl, ARCH_GET_FS, &thread) == 0 && thread == self);
    say("segments\n");
    return 0;
}
