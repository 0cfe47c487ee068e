// A process that is number one in its own PID namespace, with children and threads, all of which die with it.
// needs: userns
// flags: -pthread
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

static void *thread(void *number)
{
    CHECK(getpid() == 2 && syscall(SYS_gettid) == *(long *)number);
    return NULL;
}

/* Numbers two and three: a process and its thread. */
static void with_a_thread(void) {
    long number = 3;
    pthread_t other;
    CHECK(getpid() == 2 && getppid() == 1 && syscall(SYS_gettid) == 2);
    CHECK(pthread_create(&other, NULL, thread, &number) == 0 && pthread_join(other, NULL) == 0);
    _exit(7);
}

/* The kernel spares number one, but not its children, from signals that would kill them. */
static void spared(void) {
    int status;
    CHECK(kill(1, SIGTERM) == 0 && raise(SIGUSR1) == 0 && kill(1, SIGKILL) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(raise(SIGTERM) == 0);
        _exit(1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    say("child %d ended by %d\n", child, WTERMSIG(status));
}

static void first(void) {
    CHECK(getpid() == 1 && getppid() == 0);
    pid_t second = fork();
    CHECK(second >= 0);
    if (second == 0) {
        with_a_thread();
    }
    CHECK(second == 2);
    expect_exit(second, 7);
    spared();
    pid_t executed = fork();
    CHECK(executed >= 0);
    if (executed == 0) {
        execl("/bin/sh", "sh", "-c", "echo number $$; /bin/true; kill -KILL $$", (char *)NULL);
        _exit(127);
    }
    int status;
    CHECK(waitpid(executed, &status, 0) == executed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    pid_t left = fork();
    CHECK(left >= 0);
    while (left == 0) {
        pause();
    }
    usleep(2000);
    // When number one ends, the kernel kills all processes of the namespace.
    _exit(15);
}

int main(void) {
    guard();
    pid_t outer = fork();
    CHECK(outer >= 0);
    if (outer == 0) {
        CHECK(unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0);
        pid_t one = fork();
        CHECK(one >= 0);
        if (one == 0) {
            first();
        }
        CHECK(one != 1);
        expect_exit(one, 15);
        _exit(0);
    }
    expect_exit(outer, 0);
    say("outer %d\n", outer);
    return 0;
}
