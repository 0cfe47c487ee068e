// Stopping and continuing a child, with and without being told, and killing it while it is stopped.
#include "check.h"

int main(void) {
    guard();
    int ticks[2];
    int orders[2];
    CHECK(pipe(ticks) == 0 && pipe(orders) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(10);
        // The child is in its own group, below a parent of the same session, so SIGTSTP surely stops it.
        CHECK(setpgid(0, 0) == 0);
        CHECK(write(ticks[1], "1", 1) == 1);
        raise(SIGSTOP);
        CHECK(write(ticks[1], "2", 1) == 1);
        // Another stop at once would discard the report that it had continued.
        char order;
        CHECK(read(orders[0], &order, 1) == 1);
        raise(SIGTSTP);
        for (;;) {
            pause();
        }
    }
    char byte;
    int status;
    CHECK(read(ticks[0], &byte, 1) == 1);
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    CHECK(kill(child, SIGCONT) == 0);
    CHECK(waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status));
    CHECK(read(ticks[0], &byte, 1) == 1 && byte == '2');
    CHECK(write(orders[1], "g", 1) == 1);
    siginfo_t info;
    CHECK(waitid(P_PID, child, &info, WSTOPPED) == 0 && info.si_code == CLD_STOPPED && info.si_status == SIGTSTP);
    CHECK(kill(child, SIGCONT) == 0);
    CHECK(waitid(P_PID, child, &info, WCONTINUED) == 0 && info.si_code == CLD_CONTINUED);
    CHECK(kill(child, SIGSTOP) == 0 && waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    CHECK(kill(child, SIGKILL) == 0);
    expect_killed(child, SIGKILL);
    say("child %d\n", child);
    return 0;
}
