// The program's filters show where the kernel shows them: in /proc and by prctl, also in a thread that gets them from another one, with no_new_privs. Strict mode does not affect the time-stamp counter (docs/LIMITS.md).
// modes: record replay slow
// stdout: ^counted$
// flags: -pthread
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static pthread_barrier_t barrier;

static void is_shown(int filters) {
    FILE *status = fopen("/proc/thread-self/status", "r");
    char line[300];
    int found = 0;
    CHECK(status != NULL);
    while (fgets(line, sizeof line, status)) {
        int value;
        if (sscanf(line, "Seccomp: %d", &value) == 1) {
            CHECK(value == (filters ? SECCOMP_MODE_FILTER : SECCOMP_MODE_DISABLED));
            found++;
        }
        if (sscanf(line, "Seccomp_filters: %d", &value) == 1) {
            CHECK(value == filters);
            found++;
        }
        if (sscanf(line, "NoNewPrivs: %d", &value) == 1) {
            CHECK(value == (filters > 0));
            found++;
        }
    }
    CHECK(found == 3 && fclose(status) == 0);
    CHECK(prctl(PR_GET_SECCOMP) == (filters ? SECCOMP_MODE_FILTER : SECCOMP_MODE_DISABLED));
}

static void *gets_it(void *unused) {
    is_shown(0);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    is_shown(1);
    return unused;
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
    pthread_t thread;
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, gets_it, NULL) == 0);
    pthread_barrier_wait(&barrier);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0);
    is_shown(1);
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    is_shown(2);
    return 0;
}
