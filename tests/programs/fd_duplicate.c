// dup, dup2, dup3 and the duplicating fcntl commands: numbers, flags and shared offsets.
#include "check.h"

int main(void) {
    int file = file_with("data", "abcdef");
    int copy = dup(file);
    char byte;
    CHECK(copy > file && read(file, &byte, 1) == 1 && read(copy, &byte, 1) == 1 && byte == 'b');
    CHECK(dup2(file, file) == file && dup2(file, 100) == 100);
    CHECK_FAILS(dup3(file, file, 0), EINVAL);
    CHECK(dup3(file, 101, O_CLOEXEC) == 101 && fcntl(101, F_GETFD) == FD_CLOEXEC);
    CHECK(fcntl(100, F_GETFD) == 0);
    CHECK(fcntl(file, F_DUPFD, 100) == 102);
    CHECK(fcntl(file, F_DUPFD_CLOEXEC, 50) == 50 && fcntl(50, F_GETFD) == FD_CLOEXEC);
    CHECK(fcntl(50, F_SETFD, 0) == 0 && fcntl(50, F_GETFD) == 0);
    CHECK(fcntl(file, F_SETFL, O_NONBLOCK | O_APPEND) == 0);
    // Status flags belong to the description, so the copy has them too.
    CHECK((fcntl(copy, F_GETFL) & (O_NONBLOCK | O_APPEND)) == (O_NONBLOCK | O_APPEND));
    CHECK(close(file) == 0);
    CHECK(dup(copy) == file);
    CHECK(fcntl(copy, F_SETOWN, getpid()) == 0 && fcntl(copy, F_GETOWN) == getpid());
    struct f_owner_ex owner = {0};
    CHECK(fcntl(copy, F_GETOWN_EX, &owner) == 0 && owner.pid == getpid());
    CHECK_FAILS(fcntl(copy, 9999), EINVAL);
    say("owner %d, copies %d %d\n", owner.pid, copy, file);
    return 0;
}
