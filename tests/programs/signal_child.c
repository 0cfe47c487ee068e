// SIGCHLD: a handler that reaps all ended children, which end in any order.
#include "check.h"

enum { CHILDREN = 20 };

static volatile sig_atomic_t reaped;
static volatile sig_atomic_t calls;

static void on_child(int number UNUSED, siginfo_t *info, void *context UNUSED) {
    CHECK(info->si_code == CLD_EXITED);
    int saved = errno;
    calls++;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
        reaped++;
    }
    errno = saved;
}

int main(void) {
    guard();
    handle(SIGCHLD, on_child, SA_RESTART | SA_NOCLDSTOP);
    for (int index = 0; index < CHILDREN; index++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            usleep((index % 5) * 500);
            _exit(0);
        }
    }
    while (reaped < CHILDREN) {
        usleep(500);
    }
    CHECK_FAILS(wait(NULL), ECHILD);
    say("%d calls of the handler\n", (int)calls);
    // The kernel reaps the children of a parent that ignores SIGCHLD.
    signal(SIGCHLD, SIG_IGN);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        _exit(1);
    }
    CHECK_FAILS(waitpid(child, NULL, 0), ECHILD);
    return 0;
}
