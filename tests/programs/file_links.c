// Names: link, symlink, readlink, rename, exchange, unlink, mkdir and rmdir.
// output: same
#include "check.h"

int main(void) {
    CHECK(close(file_with("first", "1")) == 0 && close(file_with("second", "22")) == 0);
    CHECK(link("first", "other") == 0);
    CHECK_FAILS(link("first", "second"), EEXIST);
    struct stat status;
    CHECK(stat("first", &status) == 0 && status.st_nlink == 2);
    CHECK(symlink("a/long/target", "link") == 0);
    char target[20];
    memset(target, '#', sizeof target);
    CHECK(readlink("link", target, sizeof target) == 13 && target[13] == '#');
    // A short buffer truncates without an error.
    CHECK(readlink("link", target, 6) == 6);
    CHECK_FAILS(readlink("first", target, 6), EINVAL);
    CHECK(rename("first", "moved") == 0);
    CHECK_FAILS(access("first", F_OK), ENOENT);
    CHECK_FAILS(renameat2(AT_FDCWD, "moved", AT_FDCWD, "second", RENAME_NOREPLACE), EEXIST);
    CHECK(renameat2(AT_FDCWD, "moved", AT_FDCWD, "second", RENAME_EXCHANGE) == 0);
    CHECK(stat("moved", &status) == 0 && status.st_size == 2);
    CHECK(mkdir("folder", 0700) == 0);
    CHECK_FAILS(unlink("folder"), EISDIR);
    CHECK(renameat(AT_FDCWD, "moved", AT_FDCWD, "folder/inner") == 0);
    CHECK_FAILS(rmdir("folder"), ENOTEMPTY);
    CHECK(unlinkat(AT_FDCWD, "folder/inner", 0) == 0);
    CHECK(unlinkat(AT_FDCWD, "folder", AT_REMOVEDIR) == 0);
    CHECK(unlink("second") == 0 && unlink("other") == 0 && unlink("link") == 0);
    CHECK(mknod("fifo", S_IFIFO | 0600, 0) == 0 && stat("fifo", &status) == 0 && S_ISFIFO(status.st_mode));
    say("%.6s\n", target);
    return 0;
}
