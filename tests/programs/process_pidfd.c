// Process descriptors: opening, signalling, waiting, copying a descriptor out of the child.
#include "check.h"
#include <poll.h>

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438 /* pidfd_getfd */
#endif

int main(void) {
    guard();
    int ready[2];
    CHECK(pipe(ready) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int file = file_with("data", "from the child");
        CHECK(dup2(file, 60) == 60 && write(ready[1], "r", 1) == 1);
        for (;;) {
            pause();
        }
    }
    char text[20] = {0};
    CHECK(read(ready[0], text, 1) == 1);
    int pidfd = syscall(SYS_pidfd_open, child, 0);
    CHECK(pidfd >= 0 && fcntl(pidfd, F_GETFD) == FD_CLOEXEC);
    int copy = syscall(SYS_pidfd_getfd, pidfd, 60, 0);
    CHECK(copy >= 0 && read(copy, text, sizeof text) == 14 && strcmp(text, "from the child") == 0);
    struct pollfd set = {pidfd, POLLIN, 0};
    CHECK(poll(&set, 1, 0) == 0);
    CHECK(syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0) == 0);
    CHECK(poll(&set, 1, -1) == 1);
    siginfo_t info;
    CHECK(waitid(P_PIDFD, pidfd, &info, WEXITED) == 0 && info.si_code == CLD_KILLED && info.si_status == SIGTERM);
    CHECK_FAILS(syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0), ESRCH);
    CHECK_FAILS(syscall(SYS_pidfd_open, -1, 0), EINVAL);
    say("child %d descriptor %d\n", child, pidfd);
    return 0;
}
