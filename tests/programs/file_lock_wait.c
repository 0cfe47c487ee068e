// A child blocks in F_SETLKW until its parent releases the lock.
#include "check.h"

static struct flock whole(short type) {
    return (struct flock){.l_type = type, .l_whence = SEEK_SET};
}

int main(void) {
    guard();
    int file = file_with("data", "-");
    struct flock lock = whole(F_WRLCK);
    CHECK(fcntl(file, F_SETLK, &lock) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct flock mine = whole(F_WRLCK);
        CHECK(fcntl(file, F_SETLKW, &mine) == 0);
        char byte;
        CHECK(pread(file, &byte, 1, 0) == 1);
        _exit(byte == '+' ? 0 : 2);
    }
    usleep(20000);
    CHECK(pwrite(file, "+", 1, 0) == 1);
    lock = whole(F_UNLCK);
    CHECK(fcntl(file, F_SETLK, &lock) == 0);
    expect_exit(pid, 0);
    say("child %d had its turn\n", pid);
    return 0;
}
