// Ignored signals interrupt nothing: reads and sleeps continue undisturbed.
#include "check.h"
#include <sys/time.h>
#include <time.h>

int main(void) {
    guard();
    signal(SIGUSR1, SIG_IGN);
    pid_t parent = getpid();
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (int round = 0; round < 30; round++) {
            kill(parent, SIGUSR1);
            kill(parent, SIGWINCH);
            usleep(300);
        }
        CHECK(write(ends[1], "x", 1) == 1);
        _exit(0);
    }
    struct timespec wait_time = {0, 5000000};
    CHECK(nanosleep(&wait_time, NULL) == 0);
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x');
    expect_exit(child, 0);
    sigset_t pending;
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 0);
    say("child %d\n", child);
    return 0;
}
