// ioctl on ordinary descriptors: bytes waiting, close-on-exec, non-blocking mode, and refusals.
// output: same
#include "check.h"
#include <sys/ioctl.h>

int main(void) {
    int ends[2];
    CHECK(pipe(ends) == 0 && write(ends[1], "12345", 5) == 5);
    int value = -1;
    CHECK(ioctl(ends[0], FIONREAD, &value) == 0 && value == 5);
    int file = file_with("data", "123");
    CHECK(lseek(file, 1, SEEK_SET) == 1 && ioctl(file, FIONREAD, &value) == 0 && value == 2);
    CHECK(ioctl(file, FIOCLEX) == 0 && fcntl(file, F_GETFD) == FD_CLOEXEC);
    CHECK(ioctl(file, FIONCLEX) == 0 && fcntl(file, F_GETFD) == 0);
    value = 1;
    CHECK(ioctl(ends[0], FIONBIO, &value) == 0 && (fcntl(ends[0], F_GETFL) & O_NONBLOCK));
    CHECK_FAILS(ioctl(file, TCGETS, &value), ENOTTY);
    CHECK_FAILS(ioctl(file, TIOCGWINSZ, &value), ENOTTY);
    CHECK_FAILS(ioctl(99, FIONREAD, &value), EBADF);
    CHECK_FAILS(ioctl(ends[0], FIONREAD, (void *)8), EFAULT);
    say("pipe held 5, file 2\n");
    return 0;
}
