// A statically linked program: no loader, its own copy of the C library.
// flags: -static
#include "check.h"
#include <time.h>

int main(void) {
    struct timespec now;
    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    char *block = malloc(1 << 20);
    CHECK(block);
    memset(block, 1, 1 << 20);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        _exit(11);
    }
    expect_exit(child, 11);
    say("%ld.%09ld main %p block %p\n", (long)now.tv_sec, now.tv_nsec, (void *)main, (void *)block);
    return 0;
}
