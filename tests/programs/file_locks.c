// flock, record locks and open-file-description locks between a parent and its child.
#include "check.h"
#include <sys/file.h>

static int set_lock(int file, int command, short type) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = 2, .l_len = 4};
    return fcntl(file, command, &lock);
}

static void child(pid_t parent) {
    int file = open("data", O_RDWR);
    CHECK_FAILS(flock(file, LOCK_EX | LOCK_NB), EWOULDBLOCK);
    CHECK_FAILS(set_lock(file, F_OFD_SETLK, F_WRLCK), EAGAIN);
    CHECK(set_lock(file, F_SETLK, F_WRLCK) == -1 && (errno == EAGAIN || errno == EACCES));
    struct flock found = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 5, .l_len = 1};
    CHECK(fcntl(file, F_GETLK, &found) == 0);
    CHECK(found.l_type == F_WRLCK && found.l_start == 2 && found.l_len == 4 && found.l_pid == parent);
    say("held by %d\n", found.l_pid);
    // Bytes outside the locked range are free.
    found = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 6, .l_len = 1};
    CHECK(fcntl(file, F_SETLK, &found) == 0);
    _exit(0);
}

int main(void) {
    guard();
    int file = file_with("data", "0123456789");
    CHECK(flock(file, LOCK_EX) == 0);
    CHECK(set_lock(file, F_SETLK, F_WRLCK) == 0);
    pid_t parent = getpid();
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        child(parent);
    }
    expect_exit(pid, 0);
    CHECK(set_lock(file, F_SETLKW, F_UNLCK) == 0);
    CHECK(set_lock(file, F_OFD_SETLKW, F_WRLCK) == 0 && set_lock(file, F_OFD_SETLK, F_UNLCK) == 0);
    CHECK(flock(file, LOCK_UN) == 0);
    int second = open("data", O_RDWR);
    CHECK(flock(second, LOCK_SH | LOCK_NB) == 0 && flock(file, LOCK_SH) == 0);
    return 0;
}
