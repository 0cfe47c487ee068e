// A thread with its own table of descriptors closes and opens descriptors that others print to; the output of each is the same at replay.
// output: same
// flags: -pthread
#include "check.h"
#include <pthread.h>
#include <sched.h>

static void *with_own(void *unused) {
    CHECK(unshare(CLONE_FILES) == 0);
    int copy = dup(STDOUT_FILENO);
    CHECK(close(STDOUT_FILENO) == 0);
    CHECK(open("/dev/null", O_WRONLY) == STDOUT_FILENO);
    say("nobody sees this\n");
    dprintf(copy, "from the copy\n");
    CHECK(dup2(copy, STDOUT_FILENO) == STDOUT_FILENO);
    say("from the thread\n");
    pid_t child = fork();
    if (child == 0) {
        say("from the child\n");
        close(STDOUT_FILENO);
        dprintf(copy, "from the child's copy\n");
        _exit(0);
    }
    expect_exit(child, 0);
    close(STDOUT_FILENO);
    return NULL;
}

int main(void) {
    pthread_t thread;
    say("before\n");
    CHECK(pthread_create(&thread, NULL, with_own, NULL) == 0 && pthread_join(thread, NULL) == 0);
    say("after\n");
    int copy = dup(STDOUT_FILENO);
    dprintf(copy, "by a copy\n");
    CHECK(close(STDOUT_FILENO) == 0);
    dprintf(copy, "by the copy alone\n");
    return 0;
}
