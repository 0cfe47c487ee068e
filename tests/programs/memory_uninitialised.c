// Uninitialised stack contents: whatever the loader, the library and system calls left there must be the same at replay.
// flags: -Wno-uninitialized
#include "check.h"
#include <time.h>

__attribute__((noinline)) static uint64_t stale(void) {
    volatile unsigned char rubbish[16384];
    uint64_t hash = 0xcbf29ce484222325u;
    // Volatile, so that the compiler reads what is really there.
    for (size_t index = 0; index < sizeof rubbish; index++) {
        hash = (hash ^ rubbish[index]) * 0x100000001b3u;
    }
    return hash;
}

int main(void) {
    say("at start %016lx\n", (unsigned long)stale());
    struct timespec now;
    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    say("after the clock %016lx\n", (unsigned long)stale());
    FILE *file = fopen("data", "w");
    CHECK(file && fprintf(file, "%f", 1.5) == 8 && fclose(file) == 0);
    say("after a file %016lx\n", (unsigned long)stale());
    unsigned char *heap = malloc(3000);
    CHECK(heap);
    free(heap);
    heap = malloc(3000);
    __asm__ volatile("" : "+r"(heap) : : "memory");
    say("heap %016lx\n", (unsigned long)digest(heap, 3000));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        say("in a child %016lx\n", (unsigned long)stale());
        _exit(0);
    }
    expect_exit(child, 0);
    return 0;
}
