// The program can use SIGSYS: handlers, masks, waiting, and dying by it.
#include "check.h"

static volatile sig_atomic_t calls;

static void on_signal(int number, siginfo_t *info, void *context UNUSED) {
    CHECK(number == SIGSYS && info->si_pid == getpid());
    calls++;
}

int main(void) {
    handle(SIGSYS, on_signal, 0);
    CHECK(raise(SIGSYS) == 0 && calls == 1);
    sigset_t set;
    sigfillset(&set);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    CHECK(raise(SIGSYS) == 0 && calls == 1 && getppid() > 0);
    sigset_t pending;
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGSYS) == 1);
    sigemptyset(&set);
    sigaddset(&set, SIGSYS);
    siginfo_t info;
    CHECK(sigwaitinfo(&set, &info) == SIGSYS && calls == 1);
    CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
    struct sigaction action;
    CHECK(sigaction(SIGSYS, NULL, &action) == 0 && action.sa_sigaction == on_signal);
    signal(SIGSYS, SIG_IGN);
    CHECK(raise(SIGSYS) == 0 && calls == 1);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        signal(SIGSYS, SIG_DFL);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        raise(SIGSYS);
        _exit(1);
    }
    expect_killed(child, SIGSYS);
    say("child %d\n", child);
    return 0;
}
