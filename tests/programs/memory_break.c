// The program break: sbrk up and down, malloc above it, and pages that come back empty.
#include "check.h"

int main(void) {
    char *start = sbrk(0);
    CHECK(start != (void *)-1);
    CHECK(sbrk(100000) == start && sbrk(0) == start + 100000);
    for (int at = 0; at < 100000; at += 100) {
        CHECK(start[at] == 0);
        start[at] = 1;
    }
    CHECK(brk(start) == 0 && sbrk(0) == start);
    CHECK(sbrk(100000) == start);
    // Whole pages that were released come back as zeros.
    CHECK(start[50000] == 0);
    CHECK(syscall(SYS_brk, 0) == (long)start + 100000);
    // For an impossible break the kernel returns the current one.
    CHECK(syscall(SYS_brk, 1) == (long)start + 100000);
    void *blocks[200];
    for (int index = 0; index < 200; index++) {
        blocks[index] = malloc(1000 + index * 37);
        CHECK(blocks[index]);
        memset(blocks[index], index, 1000);
    }
    for (int index = 0; index < 200; index += 2) {
        free(blocks[index]);
    }
    say("%p %p %p\n", (void *)start, blocks[1], blocks[199]);
    return 0;
}
