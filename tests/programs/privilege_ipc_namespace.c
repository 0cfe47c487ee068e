// Makes and enters namespaces at once and runs a program in them, as sandboxes do. System V objects stay the old ones (docs/LIMITS.md).
// needs: userns
#include "check.h"
#include <sched.h>
#include <sys/syscall.h>

static int open_namespace(const char *name) {
    char path[40];
    snprintf(path, sizeof path, "/proc/self/ns/%s", name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* All namespaces by one clone, as in bubblewrap. */
static void cloned(void) {
    long flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWNET | SIGCHLD;
    pid_t child = (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, NULL);
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(getpid() == 1);
        CHECK(setsid() == 1);
        execl("/bin/sh", "sh", "-c", "echo $$; (echo sub); sh -c 'echo $$; exit 4'; exit 5", (char *)NULL);
        _exit(127);
    }
    expect_exit(child, 5);
}

static void unshared(void) {
    CHECK(unshare(CLONE_NEWUSER) == 0);
    CHECK(unshare(CLONE_NEWIPC) == 0 && unshare(CLONE_NEWIPC | CLONE_NEWUTS) == 0);
    int ipc = open_namespace("ipc"), uts = open_namespace("uts");
    CHECK(ipc >= 0 && uts >= 0);
    CHECK(setns(ipc, 0) == 0 && setns(ipc, CLONE_NEWIPC) == 0 && setns(uts, CLONE_NEWUTS) == 0);
    CHECK(setns(ipc, CLONE_NEWUTS) == -1 && errno == EINVAL);
    CHECK(setns(-1, CLONE_NEWIPC) == -1 && errno == EBADF);
    execl("/bin/sh", "sh", "-c", "/bin/true && exit 6", (char *)NULL);
    _exit(127);
}

int main(void) {
    guard();
    cloned();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        unshared();
    }
    expect_exit(child, 6);
    CHECK(getuid() == 0 || (unshare(CLONE_NEWIPC) == -1 && errno == EPERM));
    return 0;
}
