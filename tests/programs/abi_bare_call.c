// Jumping straight to a system-call instruction, with the number computed elsewhere, and returning through it.
#include "check.h"

extern long bare_call(long number, long first, long second, long third);
extern long jump_to_middle(long number);

__asm__(".text\n"
        ".globl bare_call\n"
        "bare_call:\n"
        "mov %rdi, %rax\n mov %rsi, %rdi\n mov %rdx, %rsi\n mov %rcx, %rdx\n"
        "jmp only_call\n"
        ".skip 64, 0xcc\n"
        "only_call: syscall\n"
        "ret\n"
        // Here a mov stands before the call, and one path jumps over the mov.
        ".globl jump_to_middle\n"
        "jump_to_middle:\n"
        "mov %rdi, %rax\n"
        "test %rdi, %rdi\n"
        "jnz middle\n"
        "mov $39, %eax\n"
        "middle: syscall\n"
        "ret\n");

int main(void) {
    for (int round = 0; round < 1000; round++) {
        CHECK(bare_call(SYS_getpid, 0, 0, 0) == getpid());
        CHECK(jump_to_middle(0) == getpid());
        CHECK(jump_to_middle(SYS_getppid) == getppid());
    }
    CHECK(bare_call(SYS_write, 1, (long)"bare\n", 5) == 5);
    CHECK(bare_call(SYS_close, 1000, 0, 0) == -EBADF);
    pid_t child = bare_call(SYS_fork, 0, 0, 0);
    CHECK(child >= 0);
    if (child == 0) {
        bare_call(SYS_exit_group, 14, 0, 0);
    }
    expect_exit(child, 14);
    say("child %d\n", child);
    return 0;
}
