// Waiting for signals without handlers: sigwaitinfo, sigtimedwait, sigwait.
#include "check.h"
#include <time.h>

int main(void) {
    guard();
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    struct timespec wait_time = {0, 2000000};
    siginfo_t info;
    CHECK_FAILS(sigtimedwait(&set, &info, &wait_time), EAGAIN);
    CHECK(kill(getpid(), SIGUSR2) == 0 && sigtimedwait(&set, &info, &wait_time) == SIGUSR2 && info.si_pid == getpid());
    pid_t parent = getpid();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        usleep(3000);
        CHECK(kill(parent, SIGUSR1) == 0);
        int number;
        CHECK(sigwait(&set, &number) == 0 && number == SIGUSR2);
        _exit(0);
    }
    CHECK(sigwaitinfo(&set, &info) == SIGUSR1 && info.si_pid == child);
    CHECK(kill(child, SIGUSR2) == 0);
    expect_exit(child, 0);
    wait_time.tv_nsec = 0;
    CHECK_FAILS(sigtimedwait(&set, NULL, &wait_time), EAGAIN);
    say("child %d\n", child);
    return 0;
}
