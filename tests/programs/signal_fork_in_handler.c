// A handler that forks and waits interrupts a read, which is restarted afterwards.
#include "check.h"

static volatile pid_t grandchild;

static void on_signal(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        _exit(7);
    }
    expect_exit(child, 7);
    grandchild = child;
}

int main(void) {
    guard();
    handle(SIGUSR1, on_signal, SA_RESTART);
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t parent = getpid();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        usleep(2000);
        CHECK(kill(parent, SIGUSR1) == 0);
        usleep(2000);
        CHECK(write(ends[1], "x", 1) == 1);
        _exit(0);
    }
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x');
    expect_exit(child, 0);
    CHECK(grandchild > 0);
    say("children %d %d\n", child, grandchild);
    return 0;
}
