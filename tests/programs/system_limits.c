// Resource limits: getrlimit, setrlimit and prlimit, of the process itself and of a child.
#include "check.h"
#include <sys/resource.h>

int main(void) {
    for (int resource = 0; resource < RLIM_NLIMITS; resource++) {
        struct rlimit limit;
        CHECK(getrlimit(resource, &limit) == 0);
        say("%d: %lx %lx\n", resource, (unsigned long)limit.rlim_cur, (unsigned long)limit.rlim_max);
    }
    struct rlimit core = {0, 0};
    CHECK(setrlimit(RLIMIT_CORE, &core) == 0);
    struct rlimit old = {7, 7};
    struct rlimit files = {50, 60};
    CHECK(prlimit(0, RLIMIT_NOFILE, &files, &old) == 0 && old.rlim_max >= 60);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct rlimit inherited;
        CHECK(getrlimit(RLIMIT_NOFILE, &inherited) == 0 && inherited.rlim_cur == 50 && inherited.rlim_max == 60);
        _exit(0);
    }
    expect_exit(child, 0);
    files.rlim_cur = 61;
    CHECK_FAILS(setrlimit(RLIMIT_NOFILE, &files), EINVAL);
    CHECK_FAILS(prlimit(0, 99, NULL, &old), EINVAL);
    CHECK_FAILS(dup2(0, 50), EBADF);
    return 0;
}
