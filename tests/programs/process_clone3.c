// clone3 with a pidfd, with CLONE_PARENT, and with invalid arguments.
#include "check.h"
#include <linux/sched.h>
#include <poll.h>

int main(void) {
    guard();
    int pidfd = -1;
    pid_t stored = -1;
    struct clone_args arguments = {.flags = CLONE_PIDFD | CLONE_PARENT_SETTID, .pidfd = (uintptr_t)&pidfd,
                                   .parent_tid = (uintptr_t)&stored, .exit_signal = SIGCHLD};
    pid_t child = syscall(SYS_clone3, &arguments, sizeof arguments);
    CHECK(child >= 0);
    if (child == 0) {
        usleep(3000);
        _exit(21);
    }
    CHECK(stored == child && pidfd >= 0);
    struct pollfd set = {pidfd, POLLIN, 0};
    CHECK(poll(&set, 1, -1) == 1);
    siginfo_t info;
    CHECK(waitid(P_PIDFD, pidfd, &info, WEXITED) == 0 && info.si_status == 21 && info.si_pid == child);
    arguments = (struct clone_args){.flags = CLONE_SIGHAND, .exit_signal = SIGCHLD};
    CHECK_FAILS(syscall(SYS_clone3, &arguments, sizeof arguments), EINVAL);
    CHECK_FAILS(syscall(SYS_clone3, &arguments, 8), EINVAL);
    // CLONE_CLEAR_SIGHAND resets the child's handlers to the default.
    signal(SIGUSR1, SIG_IGN);
    arguments = (struct clone_args){.flags = CLONE_CLEAR_SIGHAND, .exit_signal = SIGCHLD};
    signal(SIGUSR2, (void (*)(int))_exit);
    child = syscall(SYS_clone3, &arguments, sizeof arguments);
    CHECK(child >= 0);
    if (child == 0) {
        raise(SIGUSR2);
        _exit(0);
    }
    expect_killed(child, SIGUSR2);
    say("pidfd %d children %d %d\n", pidfd, stored, child);
    return 0;
}
