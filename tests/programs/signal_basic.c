// A handler for a signal that the process sends itself runs before kill returns, with the right information.
#include "check.h"

static volatile sig_atomic_t count;
// Volatile: the compiler assumes that calls like raise and kill run none of this file's functions.
static volatile siginfo_t seen;

static void on_signal(int number, siginfo_t *info, void *context) {
    CHECK(number == SIGUSR1 && context);
    seen = *info;
    count++;
}

int main(void) {
    handle(SIGUSR1, on_signal, 0);
    CHECK(kill(getpid(), SIGUSR1) == 0 && count == 1);
    CHECK(seen.si_signo == SIGUSR1 && seen.si_code == SI_USER && seen.si_pid == getpid() && seen.si_uid == getuid());
    CHECK(raise(SIGUSR1) == 0 && count == 2 && seen.si_code == SI_TKILL);
    pid_t parent = getpid();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(kill(parent, SIGUSR1) == 0);
        _exit(0);
    }
    while (count < 3) {
        usleep(200);
    }
    CHECK(seen.si_pid == child);
    expect_exit(child, 0);
    struct sigaction action;
    CHECK(sigaction(SIGUSR1, NULL, &action) == 0 && action.sa_sigaction == on_signal && (action.sa_flags & SA_SIGINFO));
    CHECK_FAILS(sigaction(SIGKILL, &action, NULL), EINVAL);
    say("from %d\n", seen.si_pid);
    return 0;
}
