// A program that reads its own code finds a jump before a system call, and a trap in place of the call (docs/LIMITS.md).
// modes: record replay
#include "check.h"

extern const unsigned char before_call[], at_call[], after_call[];

__attribute__((noinline)) static long process_number(void) {
    long result;
    __asm__ volatile("nop\nbefore_call: mov $39, %%eax\nat_call: syscall\nafter_call: nop" : "=a"(result) : : "rcx", "r11", "memory");
    return result;
}

int main(void) {
    CHECK(process_number() == getpid());
    CHECK(after_call - at_call == 2 && at_call - before_call == 5);
    CHECK(before_call[0] == 0xe9 && at_call[0] == 0xcd && at_call[1] == 5);
    return 0;
}
