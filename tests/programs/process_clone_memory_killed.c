// Processes that share all memory but are no threads: one that only computes does not block the other, even when it is killed.
// output: same
#include "check.h"
#include <sched.h>
#include <sys/mman.h>

static volatile unsigned long counter;
static char stack[65536] __attribute__((aligned(16)));

static int computes(void *unused) {
    (void)unused;
    for (;;) {
        counter++;
    }
}

static int waits(void *unused) {
    (void)unused;
    for (;;) {
        pause();
    }
}

static int has_child(void *unused) {
    (void)unused;
    static char inner[65536] __attribute__((aligned(16)));
    pid_t child = clone(computes, inner + sizeof inner, CLONE_VM | SIGCHLD, NULL);
    if (child < 0 || kill(child, SIGKILL)) {
        _exit(1);
    }
    expect_killed(child, SIGKILL);
    _exit(4);
}

int main(void) {
    guard();
    int (*const mains[])(void *) = {computes, waits, computes};
    for (int i = 0; i < 3; i++) {
        unsigned long before = counter;
        pid_t child = clone(mains[i], stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
        CHECK(child > 0);
        while (mains[i] == computes && counter == before) {
            __asm__ volatile("");
        }
        CHECK(kill(child, SIGKILL) == 0);
        expect_killed(child, SIGKILL);
    }
    pid_t child = clone(has_child, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
    CHECK(child > 0);
    expect_exit(child, 4);
    say("all ended\n");
    return 0;
}
