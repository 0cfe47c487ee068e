// Calls that are restarted after a handler with SA_RESTART: read, wait and flock; sleeps, poll and timed futex waits are not.
#include "check.h"
#include <linux/futex.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/time.h>
#include <time.h>

static volatile sig_atomic_t ticks;

static void on_alarm(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    ticks++;
}

static pid_t later(int file, int locked) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (locked >= 0) {
            CHECK(flock(locked, LOCK_EX) == 0);
        }
        CHECK(write(file, "r", 1) == 1);
        usleep(10000);
        CHECK(write(file, "x", 1) == 1);
        _exit(3);
    }
    return child;
}

int main(void) {
    int ends[2];
    char byte;
    CHECK(pipe(ends) == 0);
    handle(SIGALRM, on_alarm, SA_RESTART);
    struct itimerval timer = {.it_interval = {0, 1500}, .it_value = {0, 1500}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    pid_t child = later(ends[1], -1);
    CHECK(read(ends[0], &byte, 1) == 1 && read(ends[0], &byte, 1) == 1 && byte == 'x');
    expect_exit(child, 3);
    child = later(ends[1], -1);
    expect_exit(child, 3);
    CHECK(read(ends[0], &byte, 1) == 1 && read(ends[0], &byte, 1) == 1);
    int file = file_with("lock", "");
    int other = open("lock", O_RDWR);
    child = later(ends[1], other);
    CHECK(close(other) == 0 && read(ends[0], &byte, 1) == 1);
    // The child holds the lock until it ends.
    CHECK(flock(file, LOCK_EX) == 0);
    expect_exit(child, 3);
    int word = 1;
    struct timespec wait_time = {20, 0};
    CHECK_FAILS(syscall(SYS_futex, &word, FUTEX_WAIT, 1, &wait_time, NULL, 0), EINTR);
    CHECK_FAILS(nanosleep(&wait_time, NULL), EINTR);
    CHECK_FAILS(poll(NULL, 0, 20000), EINTR);
    CHECK(ticks > 3);
    say("%d ticks\n", (int)ticks);
    return 0;
}
