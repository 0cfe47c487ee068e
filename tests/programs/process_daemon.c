// A daemon: two forks, a new session, no console, closed descriptors. A pipe reports its start.
#include "check.h"

static void become_daemon(int report) {
    CHECK(setsid() > 0);
    pid_t second = fork();
    CHECK(second >= 0);
    if (second > 0) {
        _exit(0);
    }
    alarm(10);
    CHECK(chdir("/") == 0);
    umask(0);
    for (int number = 0; number < 64; number++) {
        if (number != report) {
            close(number);
        }
    }
    CHECK(open("/dev/null", O_RDWR) == 0 && dup(0) == 1 && dup(0) == 2);
    CHECK(getsid(0) != getpid());
    pid_t self = getpid();
    CHECK(write(report, &self, sizeof self) == sizeof self);
    _exit(0);
}

int main(void) {
    guard();
    int report[2];
    CHECK(pipe(report) == 0);
    pid_t first = fork();
    CHECK(first >= 0);
    if (first == 0) {
        become_daemon(report[1]);
    }
    CHECK(close(report[1]) == 0);
    expect_exit(first, 0);
    pid_t daemon;
    CHECK(read(report[0], &daemon, sizeof daemon) == sizeof daemon && daemon != first);
    char byte;
    CHECK(read(report[0], &byte, 1) == 0);
    say("daemon %d\n", daemon);
    return 0;
}
