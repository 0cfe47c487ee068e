// The raw clone call without CLONE_VM: numbers stored for parent and child, other exit signals, a separate stack.
#include "check.h"
#include <sched.h>

static int answer(void *argument) {
    int *value = argument;
    return *value + (getpid() == syscall(SYS_gettid));
}

int main(void) {
    guard();
    int in_parent = -1;
    int in_child = -1;
    pid_t parent = getpid();
    pid_t child = syscall(SYS_clone, CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | SIGCHLD, NULL, &in_parent, &in_child, 0);
    CHECK(child >= 0);
    if (child == 0) {
        _exit(in_child == syscall(SYS_getpid) && getppid() == parent ? 0 : 1);
    }
    CHECK(in_parent == child && in_child == -1);
    expect_exit(child, 0);

    char *stack = malloc(65536);
    int value = 40;
    CHECK(stack);
    child = clone(answer, stack + 65536, SIGCHLD, &value);
    CHECK(child > 0);
    expect_exit(child, 41);
    // Without an exit signal, only a wait for clones sees the child.
    child = clone(answer, stack + 65536, 0, &value);
    CHECK(child > 0);
    CHECK_FAILS(waitpid(child, NULL, 0), ECHILD);
    int status;
    CHECK(waitpid(child, &status, __WALL) == child && WEXITSTATUS(status) == 41);
    CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
    child = clone(answer, stack + 65536, CLONE_FILES | CLONE_FS | SIGUSR1, &value);
    CHECK(child > 0 && waitpid(child, &status, __WCLONE) == child && WEXITSTATUS(status) == 41);
    say("children %d %d\n", in_parent, child);
    return 0;
}
