// O_TMPFILE makes a file without a name; linkat through /proc gives it one.
#include "check.h"

int main(void) {
    int file = open(".", O_TMPFILE | O_RDWR, 0600);
    CHECK(file >= 0);
    struct stat status;
    CHECK(fstat(file, &status) == 0 && status.st_nlink == 0);
    CHECK(write(file, "nameless", 8) == 8);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    CHECK(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW) == 0);
    CHECK(fstat(file, &status) == 0 && status.st_nlink == 1);
    char text[9] = {0};
    int again = open("named", O_RDONLY);
    CHECK(again >= 0 && read(again, text, 8) == 8);
    CHECK(strcmp(text, "nameless") == 0);
    CHECK_FAILS(open(".", O_TMPFILE | O_RDONLY, 0600), EINVAL);
    say("inode %lu\n", (unsigned long)status.st_ino);
    return 0;
}
