// Filters belong to a thread and pass to its children, across exec, and with TSYNC to its siblings.
// flags: -pthread
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>

static pthread_barrier_t barrier;

static long install(unsigned call, unsigned error, unsigned flags) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof steps / sizeof steps[0], steps};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static void *sibling(void *argument UNUSED) {
    CHECK(getppid() > 0 && prctl(PR_GET_SECCOMP) == 0);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier); // now it has the filter that the main thread installed for all
    CHECK_FAILS(syscall(SYS_getppid), 21);
    CHECK(prctl(PR_GET_SECCOMP) == 2);
    CHECK(install(SYS_getpgrp, 22, 0) == 0); // for this thread alone
    CHECK_FAILS(syscall(SYS_getpgrp), 22);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void mistakes(void) {
    struct sock_filter no_end = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), far = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64);
    struct sock_filter unwritten[] = {BPF_STMT(BPF_LD | BPF_MEM, 3), BPF_STMT(BPF_RET | BPF_A, 0)};
    struct sock_fprog program = {0, &no_end};
    CHECK_FAILS(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), EINVAL);
    program.len = 1;
    CHECK_FAILS(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), EINVAL);
    program.filter = &far;
    CHECK_FAILS(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), EINVAL);
    program = (struct sock_fprog){2, unwritten};
    CHECK_FAILS(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), EINVAL);
    program.filter = (void *)8;
    CHECK_FAILS(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), EFAULT);
    CHECK_FAILS(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL), EFAULT);
    CHECK_FAILS(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 1u << 20, &program), EINVAL);
    CHECK_FAILS(syscall(SYS_seccomp, 77, 0, NULL), EINVAL);
    unsigned action = SECCOMP_RET_TRAP, unknown = 0x12340000;
    CHECK(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0);
    CHECK_FAILS(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &unknown), EOPNOTSUPP);
}

int main(int count, char **arguments) {
    guard();
    if (count > 1) { // after exec
        CHECK_FAILS(syscall(SYS_getppid), 21);
        CHECK(prctl(PR_GET_SECCOMP) == 2);
        return 7;
    }
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_GET_SECCOMP) == 0);
    mistakes();
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    CHECK(pthread_create(&thread, NULL, sibling, NULL) == 0);
    pthread_barrier_wait(&barrier);
    CHECK(install(SYS_getppid, 21, SECCOMP_FILTER_FLAG_TSYNC) == 0);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    CHECK(getpgrp() > 0);
    CHECK(install(SYS_getuid, 23, SECCOMP_FILTER_FLAG_TSYNC) > 1); // the sibling's number, as it has a filter that this thread lacks
    CHECK_FAILS(install(SYS_getuid, 23, SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH), ESRCH);
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(thread, NULL) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK_FAILS(syscall(SYS_getppid), 21);
        execl("/proc/self/exe", arguments[0], "again", NULL);
        _exit(1);
    }
    expect_exit(child, 7);
    say("process %d\n", getpid());
    return 0;
}
