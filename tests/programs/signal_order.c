// Pending signals: real-time signals are queued and arrive in order, others are merged; all arrive at once when unblocked.
// output: same
#include "check.h"

// Volatile: the compiler assumes that calls like raise and kill run none of this file's functions.
static volatile int order[20];
static volatile int count;

static void on_signal(int number, siginfo_t *info, void *context UNUSED) {
    order[count++] = number * 100 + (info->si_code == SI_QUEUE ? info->si_value.sival_int : 0);
}

int main(void) {
    sigset_t set;
    sigset_t none;
    sigfillset(&set);
    sigemptyset(&none);
    CHECK(sigprocmask(SIG_SETMASK, &set, NULL) == 0);
    int numbers[] = {SIGUSR1, SIGUSR2, SIGRTMIN, SIGRTMIN + 1};
    for (int index = 0; index < 4; index++) {
        struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO, .sa_mask = set};
        CHECK(sigaction(numbers[index], &action, NULL) == 0);
    }
    CHECK(kill(getpid(), SIGUSR1) == 0 && kill(getpid(), SIGUSR1) == 0);
    for (int value = 1; value <= 3; value++) {
        CHECK(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = value}) == 0);
        CHECK(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = value}) == 0);
    }
    sigset_t pending;
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 1 && sigismember(&pending, SIGUSR2) == 0);
    CHECK(count == 0 && sigprocmask(SIG_SETMASK, &none, NULL) == 0);
    // All handlers have run when the call returns; the lowest number goes first.
    CHECK(count == 7);
    CHECK(order[0] == SIGUSR1 * 100);
    for (int index = 0; index < 3; index++) {
        CHECK(order[1 + index] == SIGRTMIN * 100 + index + 1);
        CHECK(order[4 + index] == (SIGRTMIN + 1) * 100 + index + 1);
    }
    say("seven in order\n");
    return 0;
}
