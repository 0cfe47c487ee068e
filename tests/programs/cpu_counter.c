// RDTSC and RDTSCP in line: printed, never backwards, other registers untouched.
#include "check.h"

int main(void) {
    uint64_t last = 0;
    for (int round = 0; round < 200; round++) {
        uint32_t low;
        uint32_t high;
        uint64_t kept = 0x123456789abcdef0;
        uint64_t count = kept;
        __asm__ volatile("rdtsc" : "=a"(low), "=d"(high), "+c"(count));
        CHECK(count == kept);
        uint64_t now = (uint64_t)high << 32 | low;
        CHECK(now >= last);
        last = now;
        // The halves are zero-extended into the whole registers.
        uint64_t wide = ~0ull;
        uint64_t upper = ~0ull;
        __asm__ volatile("rdtsc" : "+a"(wide), "+d"(upper));
        CHECK(wide >> 32 == 0 && upper >> 32 == 0);
    }
    uint32_t low;
    uint32_t high;
    uint32_t processor;
    __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(processor));
    CHECK(((uint64_t)high << 32 | low) >= last);
    say("%lu, processor word %u\n", (unsigned long)last, processor);
    return 0;
}
