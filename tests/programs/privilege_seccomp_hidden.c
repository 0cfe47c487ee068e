// The program's filters are not the kernel's: /proc shows none, prctl does. Strict mode leaves the time-stamp counter alone (docs/LIMITS.md).
// modes: record replay slow
// stdout: ^counted$
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

static void is_not_shown(void) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[300];
    int found = 0;
    CHECK(status != NULL);
    while (fgets(line, sizeof line, status)) {
        if (strncmp(line, "Seccomp", 7) == 0) {
            CHECK(strcmp(strchr(line, ':'), ":\t0\n") == 0);
            found++;
        }
    }
    CHECK(found > 0 && fclose(status) == 0);
}

static void strict(void) {
    unsigned low = 0, high = 0;
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    write(STDOUT_FILENO, "counted\n", low | high ? 8 : 1);
    syscall(SYS_exit, 6);
}

int main(void) {
    struct sock_filter steps[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, steps};
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        strict();
    }
    expect_exit(child, 6);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    CHECK(prctl(PR_GET_SECCOMP) == SECCOMP_MODE_FILTER);
    is_not_shown();
    return 0;
}
