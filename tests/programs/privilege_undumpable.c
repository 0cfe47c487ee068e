// A process that hides from debuggers with PR_SET_DUMPABLE 0, forks and goes on.
#include "check.h"
#include <sys/prctl.h>

int main(void) {
    guard();
    CHECK(prctl(PR_SET_DUMPABLE, 0) == 0 && prctl(PR_GET_DUMPABLE) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(prctl(PR_GET_DUMPABLE) == 0);
        char *block = malloc(1 << 16);
        CHECK(block);
        memset(block, 3, 1 << 16);
        _exit(10);
    }
    expect_exit(child, 10);
    pid_t shell = fork();
    CHECK(shell >= 0);
    if (shell == 0) {
        execl("/bin/sh", "sh", "-c", "exit 6", NULL);
        _exit(1);
    }
    expect_exit(shell, 6);
    say("children %d %d\n", child, shell);
    return 0;
}
