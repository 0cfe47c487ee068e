// CPUID does not show features whose results no recording holds: random numbers, the processor's number, transactions. Nor does it show shadow stacks and instructions that change %gs
// (docs/LIMITS.md).
// modes: record replay slow
#include "check.h"
#include <cpuid.h>

// Bits that the compiler's header has no name for.
enum { HLE = 1 << 4, RTM = 1 << 11, RDPID = 1 << 22, SHADOW_STACK = 1 << 7 };

int main(void) {
    unsigned eax, ebx, ecx, edx;
    CHECK(__get_cpuid(1, &eax, &ebx, &ecx, &edx));
    CHECK(!(ecx & bit_RDRND) && (edx & bit_SSE2));
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
        CHECK(!(ebx & (bit_RDSEED | bit_FSGSBASE | HLE | RTM)) && !(ecx & (RDPID | SHADOW_STACK)));
    }
    say("%x %x %x\n", ebx, ecx, edx);
    return 0;
}
