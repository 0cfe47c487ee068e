// With RLIMIT_NOFILE 3 nothing can be opened, and the program must still run, fork and exec.
// flags: -static
#include "check.h"
#include <sys/resource.h>

int main(int count, char **arguments) {
    if (count > 1) {
        say("%s\n", arguments[1]);
        CHECK_FAILS(dup(0), EMFILE);
        return 5;
    }
    struct rlimit limit = {3, 3};
    CHECK(syscall(SYS_close_range, 3, ~0u, 0) == 0);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK_FAILS(open("/dev/null", O_RDONLY), EMFILE);
    int ends[2];
    CHECK_FAILS(pipe(ends), EMFILE);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        // A static program: the dynamic loader would need a descriptor for the C library.
        execl("/proc/self/exe", "self", "after exec", NULL);
        _exit(1);
    }
    expect_exit(child, 5);
    return 0;
}
