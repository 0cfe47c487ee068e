// stat in all its forms: by path, descriptor, link, and the file system's own figures.
#include "check.h"
#include <sys/statfs.h>
#include <sys/sysmacros.h>

static void show(const char *what, const struct stat *status) {
    say("%s inode %lu mode %o size %ld device %u:%u changed %ld.%09ld\n", what, (unsigned long)status->st_ino,
        status->st_mode, (long)status->st_size, major(status->st_dev), minor(status->st_dev),
        (long)status->st_ctim.tv_sec, status->st_ctim.tv_nsec);
}

int main(void) {
    int file = file_with("data", "12345");
    CHECK(symlink("data", "link") == 0);
    struct stat by_path;
    struct stat by_file;
    struct stat of_link;
    CHECK(stat("link", &by_path) == 0 && fstat(file, &by_file) == 0 && lstat("link", &of_link) == 0);
    CHECK(by_path.st_ino == by_file.st_ino && by_path.st_size == 5 && S_ISREG(by_path.st_mode));
    CHECK(S_ISLNK(of_link.st_mode) && of_link.st_size == 4);
    show("file", &by_path);
    show("link", &of_link);
    CHECK(fstatat(AT_FDCWD, "link", &of_link, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(of_link.st_mode));
    CHECK(fstatat(file, "", &by_file, AT_EMPTY_PATH) == 0 && by_file.st_ino == by_path.st_ino);
    // Calls that the C library no longer makes itself.
    CHECK(syscall(SYS_stat, "data", &by_path) == 0 && syscall(SYS_fstat, file, &by_file) == 0);
    CHECK(syscall(SYS_lstat, "link", &of_link) == 0 && S_ISLNK(of_link.st_mode));
    CHECK(stat("/dev/null", &by_path) == 0 && S_ISCHR(by_path.st_mode));
    CHECK_FAILS(stat("", &by_path), ENOENT);
    struct statfs system;
    CHECK(statfs(".", &system) == 0 && fstatfs(file, &system) == 0);
    say("type %lx free blocks %lu\n", (unsigned long)system.f_type, (unsigned long)system.f_bfree);
    return 0;
}
