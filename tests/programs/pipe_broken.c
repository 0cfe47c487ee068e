// Writing to a pipe without a reader: EPIPE when SIGPIPE is ignored, else a handler runs, or the process dies.
#include "check.h"

static volatile sig_atomic_t caught;

static void on_pipe(int number, siginfo_t *info, void *context UNUSED) {
    CHECK(info->si_signo == SIGPIPE);
    caught = number;
}

int main(void) {
    int ends[2];
    CHECK(pipe(ends) == 0 && close(ends[0]) == 0);
    signal(SIGPIPE, SIG_IGN);
    CHECK_FAILS(write(ends[1], "x", 1), EPIPE);
    handle(SIGPIPE, on_pipe, 0);
    CHECK_FAILS(write(ends[1], "x", 1), EPIPE);
    CHECK(caught == SIGPIPE);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        signal(SIGPIPE, SIG_DFL);
        write(ends[1], "x", 1);
        _exit(1);
    }
    expect_killed(child, SIGPIPE);
    say("child %d died of it\n", child);
    return 0;
}
