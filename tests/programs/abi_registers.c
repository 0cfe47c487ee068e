// A bare system call changes rax, rcx and r11 only; rcx is the address behind it, r11 the flags.
#include "check.h"

// rbx rcx rdx rsi rdi rbp r8 to r14, filled in by the assembly.
uint64_t registers_after[13];
uint64_t stack_moved;
extern const char behind_call[];

__attribute__((noinline)) static long call_with_patterns(long number, uint64_t argument) {
    long result;
    __asm__ volatile(
        "push %%rbp\n push %%rbx\n mov %%rsp, %%r15\n"
        "mov %[number], %%rax\n mov %[argument], %%rdi\n"
        "movabs $0x1111111111111111, %%rbx\n movabs $0x3333333333333333, %%rdx\n movabs $0x4444444444444444, %%rsi\n"
        "movabs $0x6666666666666666, %%rbp\n movabs $0x7777777777777777, %%r8\n movabs $0x8888888888888888, %%r9\n"
        "movabs $0x9999999999999999, %%r10\n movabs $0xaaaaaaaaaaaaaaaa, %%r12\n movabs $0xbbbbbbbbbbbbbbbb, %%r13\n"
        "movabs $0xcccccccccccccccc, %%r14\n"
        "syscall\n"
        ".globl behind_call\n behind_call:\n"
        "mov %%rbx, registers_after(%%rip)\n mov %%rcx, registers_after+8(%%rip)\n mov %%rdx, registers_after+16(%%rip)\n mov %%rsi, registers_after+24(%%rip)\n"
        "mov %%rdi, registers_after+32(%%rip)\n mov %%rbp, registers_after+40(%%rip)\n mov %%r8, registers_after+48(%%rip)\n mov %%r9, registers_after+56(%%rip)\n"
        "mov %%r10, registers_after+64(%%rip)\n mov %%r11, registers_after+72(%%rip)\n mov %%r12, registers_after+80(%%rip)\n mov %%r13, registers_after+88(%%rip)\n"
        "mov %%r14, registers_after+96(%%rip)\n"
        "sub %%rsp, %%r15\n mov %%r15, stack_moved(%%rip)\n pop %%rbx\n pop %%rbp"
        : "=a"(result)
        : [number] "r"(number), [argument] "r"(argument)
        : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc");
    return result;
}

int main(void) {
    uint64_t patterns[] = {0x11, 0, 0x33, 0x44, 0, 0x66, 0x77, 0x88, 0x99, 0, 0xaa, 0xbb, 0xcc};
    long numbers[] = {SYS_getppid, SYS_getpid, SYS_sched_yield, SYS_close, 5000};
    for (size_t call = 0; call < sizeof numbers / sizeof numbers[0]; call++) {
        memset(registers_after, 0, sizeof registers_after);
        long result = call_with_patterns(numbers[call], 987654);
        CHECK(numbers[call] != SYS_getpid || result == getpid());
        CHECK(numbers[call] != SYS_close || result == -EBADF);
        CHECK(numbers[call] != 5000 || result == -ENOSYS);
        for (int index = 0; index < 13; index++) {
            CHECK(patterns[index] == 0 || registers_after[index] == patterns[index] * 0x0101010101010101);
        }
        CHECK(registers_after[4] == 987654 && stack_moved == 0);
        CHECK(registers_after[1] == (uintptr_t)behind_call);
        // Interrupts are on and bit 1 is always set.
        CHECK((registers_after[9] & 0x202) == 0x202);
    }
    say("call at %p\n", (const void *)(behind_call - 2));
    return 0;
}
