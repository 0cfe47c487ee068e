// A parent kills a child that computes and never calls the kernel.
#include "check.h"

int main(void) {
    guard();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        volatile unsigned long spins = 0;
        for (;;) {
            spins++;
        }
    }
    usleep(10000);
    CHECK(kill(child, SIGKILL) == 0);
    expect_killed(child, SIGKILL);
    say("child %d\n", child);
    return 0;
}
