// Closes every descriptor above the console's and works on: the program must neither miss nor need a descriptor of the runtime.
#include "check.h"
#include <sys/resource.h>
#include <linux/close_range.h>

int main(void) {
    for (int index = 0; index < 10; index++) {
        CHECK(open("/dev/null", O_RDONLY) >= 0);
    }
    CHECK(syscall(SYS_close_range, 5, 7, CLOSE_RANGE_CLOEXEC) == 0);
    CHECK(fcntl(6, F_GETFD) == FD_CLOEXEC);
    CHECK(syscall(SYS_close_range, 3, ~0u, 0) == 0);
    for (int number = 3; number < 1024; number++) {
        CHECK_FAILS(fcntl(number, F_GETFD), EBADF);
    }
    CHECK(open("/dev/zero", O_RDONLY) == 3);
    char byte = 1;
    CHECK(read(3, &byte, 1) == 1 && byte == 0);
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    // The old way: close every possible number.
    for (rlim_t number = 3; number < limit.rlim_cur && number < 5000; number++) {
        close(number);
    }
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        syscall(SYS_close_range, 0, ~0u, CLOSE_RANGE_UNSHARE);
        _exit(9);
    }
    expect_exit(child, 9);
    CHECK_FAILS(syscall(SYS_close_range, 9, 3, 0), EINVAL);
    say("pid %d\n", child);
    return 0;
}
