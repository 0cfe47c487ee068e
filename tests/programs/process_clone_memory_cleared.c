// Processes that share all memory: when one ends in any way, the kernel clears the word that says that it lives, and waiting processes go on. The others also go on when the first process ends.
// output: same
// modes: record replay slow
#define _GNU_SOURCE
#include "check.h"
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

enum way { EXITS, EXITS_GROUP, ABORTS, FAULTS };

static char stack[65536] __attribute__((aligned(16)));
static int word;

static int ends(void *argument) {
    switch (*(enum way *)argument) {
    case EXITS: syscall(SYS_exit, 3); break;
    case EXITS_GROUP: syscall(SYS_exit_group, 3); break;
    case ABORTS: kill(getpid(), SIGABRT); break;
    case FAULTS: *(volatile int *)8 = 1; break;
    }
    return 9;
}

static void is_cleared(enum way way, int status) {
    const struct timespec most = {.tv_sec = 60};
    const int flags = CLONE_VM | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
    int seen, found;
    word = -1;
    pid_t child = clone(ends, stack + sizeof stack, flags, &way, NULL, NULL, &word);
    CHECK(child > 0);
    while ((seen = __atomic_load_n(&word, __ATOMIC_SEQ_CST)) != 0) {
        if (syscall(SYS_futex, &word, FUTEX_WAIT, seen, &most, NULL, 0) != 0) {
            CHECK(errno == EAGAIN || errno == EINTR);
        }
    }
    word = 5; // not cleared again
    CHECK(waitpid(child, &found, 0) == child);
    CHECK((found & ~0x80) == status && word == 5);
}

static int outlives(void *unused) {
    (void)unused;
    pid_t parent = getppid();
    CHECK(syscall(SYS_kill, parent, SIGTERM) == 0);
    while (getppid() == parent) {
        usleep(1000);
    }
    static const char text[] = "outlived\n";
    CHECK(write(1, text, sizeof text - 1) == sizeof text - 1);
    syscall(SYS_exit_group, 0);
    return 0;
}

int main(void) {
    guard();
    const struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
    is_cleared(EXITS, 3 << 8);
    is_cleared(EXITS_GROUP, 3 << 8);
    is_cleared(ABORTS, SIGABRT);
    is_cleared(FAULTS, SIGSEGV);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    pid_t host = fork();
    CHECK(host >= 0);
    if (host == 0) {
        CHECK(clone(outlives, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL) > 0);
        for (;;) {
            pause();
        }
    }
    expect_killed(host, SIGTERM);
    int status;
    CHECK(wait(&status) > 0 && status == 0);
    puts("cleared");
    return 0;
}
