// A process that is number one in a namespace of its own, with a child of its own, and dies with it. Recorded, it gets EPERM (docs/LIMITS.md).
// modes: native
// needs: userns
#include "check.h"
#include <sched.h>

int main(void) {
    guard();
    pid_t outer = fork();
    CHECK(outer >= 0);
    if (outer == 0) {
        CHECK(unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0);
        pid_t first = fork();
        CHECK(first > 0 || first == 0);
        if (first == 0) {
            CHECK(getpid() == 1 && getppid() == 0);
            pid_t second = fork();
            CHECK(second >= 0);
            if (second == 0) {
                CHECK(getpid() == 2 && getppid() == 1);
                for (;;) {
                    pause();
                }
            }
            CHECK(second == 2);
            usleep(2000);
            // When number one ends, everybody in the namespace is killed.
            _exit(15);
        }
        CHECK(first != 1);
        expect_exit(first, 15);
        _exit(0);
    }
    expect_exit(outer, 0);
    say("outer %d\n", outer);
    return 0;
}
