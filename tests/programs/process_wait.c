// wait4, waitid and waitpid with their options: no hanging, no reaping, classes of children.
#include "check.h"
#include <sys/resource.h>

static pid_t leaves(int code, int gate) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char byte;
        read(gate, &byte, 1);
        _exit(code);
    }
    return child;
}

int main(void) {
    guard();
    int gate[2];
    CHECK(pipe(gate) == 0);
    pid_t first = leaves(1, gate[0]);
    int status = 77;
    CHECK(waitpid(-1, &status, WNOHANG) == 0 && status == 77);
    siginfo_t info;
    memset(&info, 0x5a, sizeof info);
    CHECK(waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0 && info.si_signo == 0);
    CHECK(write(gate[1], "x", 1) == 1);
    CHECK(waitid(P_PID, first, &info, WEXITED | WNOWAIT) == 0);
    CHECK(info.si_signo == SIGCHLD && info.si_code == CLD_EXITED && info.si_pid == first && info.si_status == 1);
    // It was not reaped, so it can be waited for again.
    CHECK(kill(first, 0) == 0);
    struct rusage usage;
    CHECK(wait4(first, &status, 0, &usage) == first && WEXITSTATUS(status) == 1);
    CHECK_FAILS(kill(first, 0), ESRCH);
    pid_t second = leaves(2, gate[0]);
    pid_t third = leaves(3, gate[0]);
    CHECK(write(gate[1], "xx", 2) == 2);
    pid_t one = wait(&status);
    int sum = WEXITSTATUS(status);
    pid_t other = waitpid(0, &status, 0);
    sum += WEXITSTATUS(status);
    CHECK(one + other == second + third && sum == 5);
    CHECK_FAILS(wait(&status), ECHILD);
    CHECK_FAILS(waitid(P_PID, 1, &info, 0), EINVAL);
    say("%d ended before %d\n", one, other);
    return 0;
}
