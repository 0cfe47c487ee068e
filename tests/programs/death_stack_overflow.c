// Endless recursion until the stack's limit.
// signal: SEGV
// flags: -O0 -Wno-infinite-recursion
#include "check.h"
#include <sys/resource.h>

static int endless(int depth) {
    volatile char frame[4000];
    frame[0] = (char)depth;
    return endless(depth + 1) + frame[0];
}

int main(void) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
    limit.rlim_cur = 1 << 20;
    CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);
    say("process %d\n", getpid());
    return endless(0);
}
