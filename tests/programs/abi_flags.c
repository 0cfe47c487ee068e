// A system call leaves the arithmetic flags and the direction flag unchanged, and r11 shows them.
// output: same
#include "check.h"

enum { CARRY = 1, PARITY = 4, ADJUST = 16, ZERO = 64, SIGN = 128, DIRECTION = 1024, OVERFLOW = 2048 };

static uint64_t flags_after(uint64_t flags, uint64_t *seen_in_r11) {
    uint64_t found;
    uint64_t r11;
    long number = SYS_getppid;
    __asm__ volatile("pushfq\n push %[flags]\n popfq\n syscall\n mov %%r11, %[r11]\n pushfq\n pop %[found]\n popfq"
                     : [found] "=&r"(found), [r11] "=&r"(r11), "+a"(number)
                     : [flags] "r"(flags)
                     : "rcx", "r11", "memory", "cc");
    *seen_in_r11 = r11;
    return found;
}

int main(void) {
    uint64_t all = CARRY | PARITY | ADJUST | ZERO | SIGN | DIRECTION | OVERFLOW;
    uint64_t single[] = {0, CARRY, PARITY, ADJUST, ZERO, SIGN, DIRECTION, OVERFLOW, all};
    for (size_t index = 0; index < sizeof single / sizeof single[0]; index++) {
        uint64_t r11;
        uint64_t found = flags_after(single[index] | 0x202, &r11);
        CHECK((found & all) == single[index]);
        CHECK((r11 & all) == single[index]);
    }
    say("flags kept\n");
    return 0;
}
