// Permissions, owners and times of files.
#include "check.h"
#include <sys/time.h>

int main(void) {
    int file = file_with("data", "x");
    struct stat status;
    CHECK(chmod("data", 0751) == 0 && stat("data", &status) == 0 && (status.st_mode & 07777) == 0751);
    CHECK(fchmod(file, 0600) == 0 && fchmodat(AT_FDCWD, "data", 0644, 0) == 0);
    CHECK(fstat(file, &status) == 0 && (status.st_mode & 07777) == 0644);
    CHECK(chown("data", getuid(), getgid()) == 0 && fchown(file, -1, -1) == 0);
    CHECK(lchown("data", -1, -1) == 0 && fchownat(file, "", -1, -1, AT_EMPTY_PATH) == 0);

    struct timespec times[2] = {{1000, 5}, {2000, 7}};
    CHECK(utimensat(AT_FDCWD, "data", times, 0) == 0 && stat("data", &status) == 0);
    CHECK(status.st_atim.tv_sec == 1000 && status.st_mtim.tv_sec == 2000 && status.st_mtim.tv_nsec == 7);
    times[0].tv_nsec = UTIME_OMIT;
    times[1].tv_nsec = UTIME_NOW;
    CHECK(futimens(file, times) == 0 && fstat(file, &status) == 0);
    CHECK(status.st_atim.tv_sec == 1000 && status.st_mtim.tv_sec > 2000);
    struct timeval old[2] = {{3000, 0}, {4000, 0}};
    CHECK(utimes("data", old) == 0 && stat("data", &status) == 0 && status.st_mtim.tv_sec == 4000);
    CHECK(syscall(SYS_utimensat, file, NULL, NULL, 0) == 0 && fstat(file, &status) == 0);
    say("now %ld.%09ld owner %u:%u\n", (long)status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_uid, status.st_gid);
    CHECK(access("data", R_OK | W_OK) == 0 && faccessat(AT_FDCWD, "data", R_OK, AT_EACCESS) == 0);
    CHECK_FAILS(access("data", 0100), EINVAL);
    return 0;
}
