// What the flags of open do, and the errors they give.
#include "check.h"

int main(void) {
    CHECK(close(open("plain", O_WRONLY | O_CREAT | O_EXCL, 0640)) == 0);
    CHECK_FAILS(open("plain", O_WRONLY | O_CREAT | O_EXCL, 0640), EEXIST);
    CHECK_FAILS(open("missing", O_RDONLY), ENOENT);
    CHECK_FAILS(open("plain", O_RDONLY | O_DIRECTORY), ENOTDIR);
    CHECK_FAILS(open(".", O_WRONLY), EISDIR);
    CHECK_FAILS(open("plain/below", O_RDONLY), ENOTDIR);
    CHECK(symlink("plain", "link") == 0);
    CHECK_FAILS(open("link", O_RDONLY | O_NOFOLLOW), ELOOP);

    int appending = open("plain", O_WRONLY | O_APPEND | O_CLOEXEC);
    CHECK(write(appending, "one", 3) == 3);
    CHECK(lseek(appending, 0, SEEK_SET) == 0);
    CHECK(write(appending, "two", 3) == 3);
    CHECK(fcntl(appending, F_GETFD) == FD_CLOEXEC);
    CHECK((fcntl(appending, F_GETFL) & (O_ACCMODE | O_APPEND)) == (O_WRONLY | O_APPEND));
    char byte;
    CHECK_FAILS(read(appending, &byte, 1), EBADF);

    int path = open("plain", O_PATH);
    CHECK(path >= 0);
    CHECK_FAILS(read(path, &byte, 1), EBADF);
    struct stat status;
    CHECK(fstat(path, &status) == 0 && status.st_size == 6);
    CHECK(close(open("plain", O_WRONLY | O_TRUNC)) == 0);
    CHECK(fstat(path, &status) == 0 && status.st_size == 0);
    CHECK(creat("created", 0600) >= 0);
    say("inode %lu\n", (unsigned long)status.st_ino);
    return 0;
}
