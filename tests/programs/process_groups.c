// Process groups and sessions: making them, signalling all of one, waiting for one.
#include "check.h"

static pid_t sleeper(pid_t group) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        setpgid(0, group);
        alarm(10);
        for (;;) {
            pause();
        }
    }
    // Both sides set it, so that neither has to wait for the other.
    CHECK(setpgid(child, group) == 0);
    return child;
}

int main(void) {
    guard();
    pid_t leader = sleeper(0);
    pid_t member = sleeper(leader);
    CHECK(getpgid(leader) == leader && getpgid(member) == leader && getpgrp() != leader);
    CHECK(kill(-leader, 0) == 0 && killpg(leader, SIGTERM) == 0);
    int status;
    pid_t first = waitpid(-leader, &status, 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    pid_t second = waitpid(-leader, &status, 0);
    CHECK(first + second == leader + member);
    CHECK_FAILS(kill(-leader, 0), ESRCH);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(setsid() == getpid() && getsid(0) == getpid() && getpgrp() == getpid());
        CHECK_FAILS(setsid(), EPERM);
        CHECK_FAILS(setpgid(0, 0), EPERM);
        _exit(0);
    }
    expect_exit(child, 0);
    say("group %d, first to go %d\n", leader, first);
    return 0;
}
