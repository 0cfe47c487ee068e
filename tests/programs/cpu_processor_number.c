// RDPID, executed without checking CPUID: replay returns the recorded number.
// flags: -O1
// needs: rdpid
#include "check.h"
#include <sched.h>

static inline uint64_t number(void) {
    uint64_t value;
    __asm__ volatile("rdpid %0" : "=r"(value));
    return value;
}

int main(void) {
    cpu_set_t one;
    CHECK(sched_getaffinity(0, sizeof one, &one) == 0);
    int first = 0;
    while (!CPU_ISSET(first, &one)) {
        first++;
    }
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    say("%lu\n", number());
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK((number() & 0xfff) == (uint64_t)first);
    return 0;
}
