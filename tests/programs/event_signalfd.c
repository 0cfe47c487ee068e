// signalfd: blocked signals read as structures, one and several at a time.
#include "check.h"
#include <poll.h>
#include <sys/signalfd.h>

int main(void) {
    guard();
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGRTMIN + 1);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    int file = signalfd(-1, &set, SFD_NONBLOCK);
    struct signalfd_siginfo found[4];
    CHECK(file >= 0);
    CHECK_FAILS(read(file, found, sizeof found), EAGAIN);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    CHECK(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 7}) == 0);
    CHECK(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 8}) == 0);
    CHECK(read(file, found, sizeof found) == 3 * sizeof found[0]);
    CHECK(found[0].ssi_signo == SIGUSR1 && found[0].ssi_pid == (unsigned)getpid());
    CHECK(found[1].ssi_int == 7 && found[2].ssi_int == 8);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        _exit(3);
    }
    struct pollfd wait_set = {file, POLLIN, 0};
    CHECK(poll(&wait_set, 1, -1) == 1 && read(file, found, sizeof found) == sizeof found[0]);
    CHECK(found[0].ssi_signo == SIGCHLD && found[0].ssi_status == 3 && found[0].ssi_pid == (unsigned)child);
    expect_exit(child, 3);
    say("child %d used %llu ticks\n", child, (unsigned long long)found[0].ssi_utime);
    CHECK_FAILS(read(file, found, 10), EINVAL);
    return 0;
}
