// ppoll, pselect and epoll_pwait change the mask only while they wait.
#include "check.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

static volatile sig_atomic_t got;

static void on_signal(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    got++;
}

int main(void) {
    guard();
    sigset_t blocked;
    sigset_t open_mask;
    sigemptyset(&open_mask);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    handle(SIGUSR1, on_signal, SA_RESTART);
    CHECK(sigprocmask(SIG_SETMASK, &blocked, NULL) == 0);
    CHECK(raise(SIGUSR1) == 0 && got == 0);
    CHECK_FAILS(ppoll(NULL, 0, NULL, &open_mask), EINTR);
    CHECK(got == 1 && raise(SIGUSR1) == 0 && got == 1);
    CHECK_FAILS(pselect(0, NULL, NULL, NULL, NULL, &open_mask), EINTR);
    CHECK(got == 2 && raise(SIGUSR1) == 0);
    int poller = epoll_create1(0);
    struct epoll_event event;
    CHECK_FAILS(epoll_pwait(poller, &event, 1, -1, &open_mask), EINTR);
    CHECK(got == 3 && raise(SIGUSR1) == 0);
    // A descriptor is ready: the call succeeds, and the signal stays pending.
    int ends[2];
    CHECK(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
    struct pollfd set = {ends[0], POLLIN, 0};
    CHECK(ppoll(&set, 1, NULL, &open_mask) == 1);
    say("handled %d times\n", (int)got);
    CHECK(sigprocmask(SIG_SETMASK, &open_mask, NULL) == 0 && got == 4);
    return 0;
}
