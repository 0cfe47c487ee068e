// Calls that fail for reasons other than addresses, each with its own error.
// output: same
#include "check.h"
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

int main(void) {
    char byte = 0;
    CHECK_FAILS(read(77, &byte, 1), EBADF);
    CHECK_FAILS(write(-1, &byte, 1), EBADF);
    CHECK_FAILS(close(77), EBADF);
    CHECK_FAILS(fsync(77), EBADF);
    CHECK_FAILS(dup2(77, 5), EBADF);
    CHECK_FAILS(lseek(0, 0, 99), EINVAL);
    CHECK_FAILS(rmdir("/nonexistent/folder"), ENOENT);
    CHECK_FAILS(mkdir("/proc/1/new", 0700), ENOENT);
    CHECK_FAILS(chdir("/etc/passwd"), ENOTDIR);
    CHECK_FAILS(kill(0x3ffffff0, 0), ESRCH);
    CHECK_FAILS(kill(getpid(), 999), EINVAL);
    CHECK_FAILS(waitpid(-1, NULL, 0), ECHILD);
    CHECK_FAILS(socket(99, SOCK_STREAM, 0), EAFNOSUPPORT);
    CHECK_FAILS(listen(STDIN_FILENO, 1), ENOTSOCK);
    CHECK(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 77, 0) == MAP_FAILED && errno == EBADF);
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK_FAILS(lseek(ends[0], 0, SEEK_SET), ESPIPE);
    CHECK_FAILS(ioctl(ends[0], TIOCGWINSZ, &byte), ENOTTY);
    CHECK_FAILS(write(ends[0], "x", 1), EBADF);
    char name[5000];
    memset(name, 'n', sizeof name);
    name[300] = 0;
    CHECK_FAILS(open(name, O_RDONLY), ENAMETOOLONG);
    // Numbers that are no system calls.
    CHECK_FAILS(syscall(100000), ENOSYS);
    CHECK_FAILS(syscall(-5), ENOSYS);
    say("all refused\n");
    return 0;
}
