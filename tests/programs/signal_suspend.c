// sigsuspend: the mask holds only while waiting, and the old one is back afterwards.
#include "check.h"

static volatile sig_atomic_t got;
static sigset_t inside;

static void on_signal(int number, siginfo_t *info UNUSED, void *context UNUSED) {
    got = number;
    sigprocmask(SIG_SETMASK, NULL, &inside);
}

int main(void) {
    guard();
    sigset_t blocked;
    sigset_t wait_mask;
    sigset_t now;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigemptyset(&wait_mask);
    sigaddset(&wait_mask, SIGHUP);
    handle(SIGUSR1, on_signal, 0);
    CHECK(sigprocmask(SIG_SETMASK, &blocked, NULL) == 0);
    // One signal is pending already, another arrives during the wait.
    for (int round = 0; round < 2; round++) {
        pid_t parent = getpid();
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            CHECK(kill(parent, SIGUSR1) == 0);
            _exit(0);
        }
        if (round == 0) {
            expect_exit(child, 0);
            CHECK(got == 0);
        }
        CHECK_FAILS(sigsuspend(&wait_mask), EINTR);
        CHECK(got == SIGUSR1);
        got = 0;
        CHECK(sigismember(&inside, SIGHUP) == 1 && sigismember(&inside, SIGUSR1) == 1);
        CHECK(sigprocmask(SIG_SETMASK, NULL, &now) == 0 && sigismember(&now, SIGHUP) == 0 && sigismember(&now, SIGUSR1) == 1);
        if (round == 1) {
            expect_exit(child, 0);
        }
    }
    say("process %d\n", getpid());
    return 0;
}
