// A child that shares its parent's memory but is a process of its own (CLONE_VM with CLONE_VFORK, as posix_spawn does).
#include "check.h"
#include <sched.h>

static int counter;

static int child_main(void *argument) {
    counter += *(int *)argument;
    CHECK(syscall(SYS_getpid) == syscall(SYS_gettid));
    syscall(SYS_exit, 3);
    return 0;
}

int main(void) {
    guard();
    static char stack[65536] __attribute__((aligned(16)));
    int step = 5;
    for (int round = 1; round <= 20; round++) {
        pid_t child = clone(child_main, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &step);
        CHECK(child > 0 && counter == 5 * round);
        expect_exit(child, 3);
    }
    pid_t child = clone(child_main, stack + sizeof stack, CLONE_VM | SIGCHLD, &step);
    CHECK(child > 0);
    expect_exit(child, 3);
    CHECK(counter == 105);
    say("last child %d\n", child);
    return 0;
}
