// The actions of filters: trap, kill the process, refuse with the caller's number, allow. The strictest of several filters decides.
// output: same
// calls: varies
#include "check.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <time.h>

#define FILTER(...) \
    { struct sock_filter steps[] = {__VA_ARGS__}; install(steps, sizeof steps / sizeof steps[0]); }
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, value)
#define SKIP_UNLESS(value, count) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count)

static void install(struct sock_filter *steps, unsigned short count) {
    struct sock_fprog program = {count, steps};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
}

static volatile sig_atomic_t trapped;

static void on_trap(int number, siginfo_t *info, void *context) {
    ucontext_t *user = context;
    CHECK(number == SIGSYS && info->si_code == 1 /* SYS_SECCOMP */ && info->si_errno == 77);
    CHECK(info->si_syscall == SYS_getppid && info->si_arch == AUDIT_ARCH_X86_64);
    CHECK(info->si_call_addr == (void *)user->uc_mcontext.gregs[REG_RIP] && user->uc_mcontext.gregs[REG_RAX] == SYS_getppid);
    user->uc_mcontext.gregs[REG_RAX] = 4711;
    trapped++;
}

static void trap(void) {
    handle(SIGSYS, on_trap, 0);
    FILTER(LOAD(nr), SKIP_UNLESS(SYS_getppid, 1), ANSWER(SECCOMP_RET_TRAP | 77), ANSWER(SECCOMP_RET_ALLOW));
    for (int i = 0; i < 3; i++) {
        CHECK(syscall(SYS_getppid) == 4711);
    }
    CHECK(trapped == 3);
    _exit(0);
}

// The second filter computes with arguments and memory; it cannot weaken the first.
static void arithmetic(void) {
    FILTER(LOAD(nr), SKIP_UNLESS(SYS_getpriority, 1), ANSWER(SECCOMP_RET_ERRNO | 11), ANSWER(SECCOMP_RET_ALLOW));
    FILTER(LOAD(nr), SKIP_UNLESS(SYS_alarm, 8), LOAD(args[0]), BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, 3), BPF_STMT(BPF_ST, 5),
           BPF_STMT(BPF_LDX | BPF_MEM, 5), BPF_STMT(BPF_LD | BPF_IMM, 7), BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0), BPF_STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO),
           BPF_STMT(BPF_RET | BPF_A, 0), ANSWER(SECCOMP_RET_ALLOW));
    CHECK_FAILS(syscall(SYS_alarm, 2), 13);
    CHECK_FAILS(syscall(SYS_alarm, 10), 37);
    CHECK_FAILS(syscall(SYS_getpriority, 0, 0), 11);
    _exit(0);
}

static void killed(unsigned action) {
    signal(SIGSYS, SIG_IGN);
    FILTER(LOAD(nr), SKIP_UNLESS(SYS_getppid, 1), ANSWER(action), ANSWER(SECCOMP_RET_ALLOW));
    syscall(SYS_getppid);
    _exit(1);
}

static void strict(void) {
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    write(STDOUT_FILENO, "strict\n", 7);
    syscall(SYS_getppid);
    syscall(SYS_exit, 1);
}

// The vDSO reads the clock without a system call: a filter that forbids the call must not break it.
static void vdso(void) {
    FILTER(LOAD(nr), SKIP_UNLESS(SYS_clock_gettime, 1), ANSWER(SECCOMP_RET_KILL_PROCESS), ANSWER(SECCOMP_RET_ALLOW));
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0 && now.tv_sec >= 0);
    _exit(0);
}

static pid_t start(void (*body)(void)) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        body();
    }
    return child;
}

static void kill_process(void) { killed(SECCOMP_RET_KILL_PROCESS); }
static void kill_thread(void) { killed(SECCOMP_RET_KILL_THREAD); }

int main(void) {
    guard();
    expect_exit(start(trap), 0);
    expect_exit(start(arithmetic), 0);
    expect_killed(start(kill_process), SIGSYS);
    expect_killed(start(kill_thread), SIGSYS);
    expect_killed(start(strict), SIGKILL);
    expect_exit(start(vdso), 0);
    say("all\n");
    return 0;
}
