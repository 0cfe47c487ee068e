// RDRAND and RDSEED, executed without checking CPUID: every size and register, with the carry flag. Replay returns the recorded values.
// flags: -O1
// needs: rdrand
// calls: same
#include "check.h"

enum { CARRY = 1, ARITHMETIC = 0x8d5 };

static uint64_t taken[64];
static int count;

static void take(uint64_t value, uint64_t flags) {
    CHECK((flags & ARITHMETIC) == CARRY);
    taken[count++] = value;
}

#define RANDOM(instruction, name, size)                                                                    \
    do {                                                                                                   \
        uint64_t value, flags;                                                                             \
        __asm__ volatile("mov $-1, %%" name "\n cmp $0, %%" name "\n1: " instruction " %%" size             \
                         "\n jnc 1b\n pushfq\n pop %[flags]\n mov %%" name ", %[value]"                     \
                         : [value] "=m"(value), [flags] "=m"(flags)                                        \
                         :                                                                                 \
                         : name, "cc", "memory");                                                          \
        take(value, flags);                                                                                \
    } while (0)

int main(void) {
    RANDOM("rdrand", "rax", "rax");
    RANDOM("rdrand", "rcx", "rcx");
    RANDOM("rdrand", "rdx", "edx");
    CHECK(taken[2] >> 32 == 0);
    RANDOM("rdrand", "rsi", "si");
    CHECK(taken[3] >> 16 == 0xffffffffffff);
    RANDOM("rdrand", "rdi", "rdi");
    RANDOM("rdrand", "r8", "r8");
    RANDOM("rdrand", "r9", "r9d");
    CHECK(taken[6] >> 32 == 0);
    RANDOM("rdrand", "r10", "r10w");
    CHECK(taken[7] >> 16 == 0xffffffffffff);
    RANDOM("rdrand", "r15", "r15");
    CHECK(taken[0] != taken[1] || taken[1] != taken[4]);
    RANDOM("rdseed", "rax", "rax");
    RANDOM("rdseed", "rcx", "ecx");
    RANDOM("rdseed", "r11", "r11");
    RANDOM("rdseed", "r12", "r12w");
    say("%016lx\n", digest(taken, sizeof taken));
    return 0;
}
