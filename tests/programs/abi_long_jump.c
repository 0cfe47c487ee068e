// setjmp and longjmp across frames that were in the middle of calls.
// flags: -Wno-infinite-recursion
// output: same
#include "check.h"
#include <setjmp.h>

static jmp_buf back;

__attribute__((noinline)) static void descend(int depth) {
    char text[8] = "xyz";
    CHECK(write(open("/dev/null", O_WRONLY | O_CLOEXEC), text, 3) == 3);
    close(3);
    if (depth == 0) {
        longjmp(back, 5);
    }
    descend(depth - 1);
    CHECK(text[0] == 'x');
}

int main(void) {
    close(3);
    volatile int rounds = 0;
    int value = setjmp(back);
    if (value == 5) {
        rounds++;
    }
    if (rounds < 100) {
        descend(10);
    }
    CHECK(rounds == 100);
    say("%d rounds\n", rounds);
    return 0;
}
