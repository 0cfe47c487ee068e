// The working directory: chdir, fchdir, getcwd and umask, and what a child inherits.
#include "check.h"

int main(void) {
    char start[4096];
    char now[4096];
    CHECK(getcwd(start, sizeof start));
    CHECK(mkdir("below", 0700) == 0 && chdir("below") == 0 && getcwd(now, sizeof now));
    CHECK(strncmp(now, start, strlen(start)) == 0 && strcmp(now + strlen(start), "/below") == 0);
    // The kernel counts the zero byte at the end.
    CHECK(syscall(SYS_getcwd, now, sizeof now) == (long)strlen(now) + 1);
    CHECK_FAILS(syscall(SYS_getcwd, now, 2), ERANGE);
    int above = open("..", O_RDONLY | O_DIRECTORY);
    CHECK(above >= 0 && fchdir(above) == 0 && getcwd(now, sizeof now) && strcmp(now, start) == 0);
    CHECK_FAILS(chdir("missing"), ENOENT);
    CHECK_FAILS(fchdir(open("/dev/null", O_RDONLY)), ENOTDIR);
    mode_t old = umask(027);
    CHECK(umask(077) == 027);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(umask(0) == 077 && chdir("/") == 0);
        _exit(0);
    }
    expect_exit(child, 0);
    struct stat status;
    CHECK(mkdir("masked", 0777) == 0 && stat("masked", &status) == 0 && (status.st_mode & 0777) == 0700);
    CHECK(getcwd(now, sizeof now) && strcmp(now, start) == 0);
    CHECK(rmdir("masked") == 0 && chdir("below") == 0 && rmdir("../below") == 0);
    CHECK_FAILS(syscall(SYS_getcwd, now, sizeof now), ENOENT);
    say("%s, mask was %o\n", start, old);
    return 0;
}
