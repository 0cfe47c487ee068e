// SIGTERM from a child, while the parent sleeps in the kernel.
// signal: TERM
#include "check.h"

int main(void) {
    guard();
    pid_t parent = getpid();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        usleep(5000);
        kill(parent, SIGTERM);
        _exit(0);
    }
    say("child %d\n", child);
    for (;;) {
        pause();
    }
}
