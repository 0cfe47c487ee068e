// Only the low half of the call number counts, and arguments keep all their bits.
// output: same
#include "check.h"

static long raw(uint64_t number, uint64_t first) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(first) : "rcx", "r11", "memory");
    return result;
}

int main(void) {
    CHECK(raw(SYS_getpid, ~0ull) == getpid());
    CHECK(raw(0xffffffff00000000 | SYS_getpid, 0) == getpid());
    // A descriptor is an int: the upper half is not looked at.
    CHECK(raw(SYS_close, 0x100000000 + 5000) == -EBADF);
    CHECK(raw(SYS_umask, 0xffffffff00000022) >= 0 && raw(SYS_umask, 022) == 0x22);
    CHECK(raw(0x7fffffff, 0) == -ENOSYS && raw((uint32_t)-1, 0) == -ENOSYS);
    say("only what counts\n");
    return 0;
}
