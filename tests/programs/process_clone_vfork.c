// A parent that waits for its child by CLONE_VFORK alone: they share only a mapping, in which both count.
// output: same
#include "check.h"
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static void run(volatile int *counter, int executes) {
    long child = syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
    CHECK(child >= 0);
    if (child == 0) {
        for (int i = 0; i < 1000; i++) {
            __atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST);
        }
        if (executes) {
            execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
        }
        _exit(7);
    }
    CHECK(*counter % 1000 == 0);
    expect_exit((pid_t)child, 7);
}

int main(void) {
    volatile int *counter = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(counter != MAP_FAILED);
    run(counter, 0);
    run(counter, 1);
    pid_t other = fork();
    if (other == 0) {
        run(counter, 0);
        run(counter, 1);
        _exit(0);
    }
    expect_exit(other, 0);
    say("%d\n", *counter);
    return 0;
}
