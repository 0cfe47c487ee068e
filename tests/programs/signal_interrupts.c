// Calls that a handler interrupts: EINTR without SA_RESTART, and for some calls always.
#include "check.h"
#include <linux/futex.h>
#include <poll.h>
#include <sys/time.h>
#include <time.h>

static volatile sig_atomic_t ticks;

static void on_alarm(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    ticks++;
}

static void arm(void) {
    // Periodic, so that a tick before the call is not the last.
    struct itimerval timer = {.it_interval = {0, 3000}, .it_value = {0, 3000}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static void interrupted_calls(void) {
    int ends[2];
    char byte;
    int word = 5;
    struct timespec wait_time = {20, 0};
    struct timespec left;
    CHECK(pipe(ends) == 0);
    CHECK_FAILS(nanosleep(&wait_time, &left), EINTR);
    CHECK(left.tv_sec <= 19);
    say("left %ld.%09ld\n", (long)left.tv_sec, left.tv_nsec);
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &wait_time, NULL) == EINTR);
    struct pollfd set = {ends[0], POLLIN, 0};
    CHECK_FAILS(poll(&set, 1, 20000), EINTR);
    CHECK_FAILS(read(ends[0], &byte, 1), EINTR);
    CHECK_FAILS(syscall(SYS_futex, &word, FUTEX_WAIT, 5, &wait_time, NULL, 0), EINTR);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (;;) {
            pause();
        }
    }
    CHECK_FAILS(waitpid(child, NULL, 0), EINTR);
    CHECK(kill(child, SIGKILL) == 0);
    int status;
    while (waitpid(child, &status, 0) == -1) {
        CHECK(errno == EINTR);
    }
}

int main(void) {
    handle(SIGALRM, on_alarm, 0);
    arm();
    interrupted_calls();
    say("%d ticks\n", (int)ticks);
    return 0;
}
