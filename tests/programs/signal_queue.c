// sigqueue passes a value, from a child and from the process itself.
#include "check.h"

// Volatile: the compiler assumes that calls like raise and kill run none of this file's functions.
static volatile siginfo_t seen;
static volatile sig_atomic_t got;

static void on_signal(int number UNUSED, siginfo_t *info, void *context UNUSED) {
    seen = *info;
    got++;
}

int main(void) {
    guard();
    handle(SIGRTMIN, on_signal, SA_RESTART);
    CHECK(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_ptr = (void *)0x123456789abc}) == 0);
    CHECK(got == 1 && seen.si_code == SI_QUEUE && seen.si_value.sival_ptr == (void *)0x123456789abc);
    pid_t parent = getpid();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(sigqueue(parent, SIGRTMIN, (union sigval){.sival_int = -5}) == 0);
        _exit(0);
    }
    expect_exit(child, 0);
    while (got < 2) {
        usleep(100);
    }
    CHECK(seen.si_pid == child && seen.si_value.sival_int == -5);
    // The raw call with a code of the program's choice.
    siginfo_t own = {.si_signo = SIGRTMIN, .si_code = -60};
    own.si_value.sival_int = 9;
    CHECK(syscall(SYS_rt_sigqueueinfo, getpid(), SIGRTMIN, &own) == 0 && got == 3 && seen.si_code == -60);
    CHECK(syscall(SYS_rt_tgsigqueueinfo, getpid(), getpid(), SIGRTMIN, &own) == 0 && got == 4);
    CHECK_FAILS(sigqueue(1 << 29, SIGRTMIN, (union sigval){0}), ESRCH);
    say("child %d\n", child);
    return 0;
}
