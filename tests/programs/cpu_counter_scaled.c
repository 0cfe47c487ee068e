// A counter that traps, here in generated code, is answered from the clock: in twice the time it advances twice as far.
// modes: record replay slow
#include "check.h"
#include <sys/mman.h>
#include <time.h>

// rdtsc; shl $32, %rdx; or %rdx, %rax; ret
static const unsigned char CODE[] = {0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0, 0xc3};

static uint64_t nanoseconds(void) {
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* The counter's ticks in a microsecond, measured over at least this time. */
static double rate(uint64_t (*counter)(void), long microseconds) {
    uint64_t clock = nanoseconds(), count = counter();
    struct timespec pause = {0, microseconds * 1000};
    CHECK(nanosleep(&pause, NULL) == 0);
    return (counter() - count) * 1000.0 / (nanoseconds() - clock);
}

int main(void) {
    void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    memcpy(code, CODE, sizeof CODE);
    uint64_t (*counter)(void) = (uint64_t (*)(void))code;
    double once = rate(counter, 50000), twice = rate(counter, 100000);
    say("%.0f and %.0f counts in a microsecond\n", once, twice);
    CHECK(once > 100 && once < 10000 && once / twice > 0.8 && once / twice < 1.25);
    return 0;
}
