// Where the kernel can neither build a signal frame nor return from one: SIGSEGV, on the alternate stack if there is a handler, and death if there is none.
// output: same
// flags: -O1
#include "check.h"
#include <ucontext.h>

static char stack[65536];

static void on_segfault(int number, siginfo_t *info, void *context) {
    (void)context;
    _exit(number == SIGSEGV && info->si_code == SI_KERNEL && !info->si_addr ? 7 : 8);
}

static void on_illegal(int number) {
    (void)number;
    _exit(9);
}

static void with_handler(void) {
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK(sigaltstack(&alternate, NULL) == 0);
    handle(SIGSEGV, on_segfault, SA_ONSTACK);
}

// An invalid stack pointer, and then an instruction that faults and has a handler.
static void lose_stack(void) {
    signal(SIGILL, on_illegal);
    __asm__ volatile("mov $0x1000, %%rsp\n ud2" ::: "memory");
}

static void lose_frame(void) {
    __asm__ volatile("mov $0x1000, %%rsp\n mov $15, %%eax\n syscall\n ud2" ::: "memory");
}

static void take_lost_registers(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ((ucontext_t *)context)->uc_mcontext.fpregs = (void *)0x1000;
}

static void lose_registers(void) {
    handle(SIGUSR1, take_lost_registers, 0);
    kill(getpid(), SIGUSR1);
}

static void take_lost_place(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] = 0x4000000000000000;
}

static void lose_place(void) {
    handle(SIGUSR1, take_lost_place, 0);
    kill(getpid(), SIGUSR1);
}

static pid_t child(void (*prepare)(void), void (*lose)(void)) {
    pid_t pid = fork();
    if (pid == 0) {
        if (prepare) {
            prepare();
        }
        lose();
        _exit(0);
    }
    return pid;
}

static void blocked(void) {
    sigset_t set;
    with_handler();
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

// So deep that its frames leave the alternate stack, below which memory is mapped.
static void nest(int number) {
    (void)number;
    raise(SIGUSR1);
}

static void exhaust(void) {
    stack_t alternate = {.ss_sp = stack + 32768, .ss_size = 32768};
    CHECK(sigaltstack(&alternate, NULL) == 0);
    struct sigaction action = {.sa_handler = nest, .sa_flags = SA_ONSTACK | SA_NODEFER};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    raise(SIGUSR1);
}

int main(void) {
    expect_exit(child(with_handler, lose_stack), 7);
    expect_killed(child(NULL, lose_stack), SIGSEGV);
    expect_killed(child(blocked, lose_stack), SIGSEGV);
    expect_exit(child(with_handler, lose_frame), 7);
    expect_killed(child(NULL, lose_frame), SIGSEGV);
    expect_killed(child(blocked, lose_frame), SIGSEGV);
    expect_exit(child(with_handler, lose_registers), 7);
    expect_killed(child(NULL, lose_registers), SIGSEGV);
    expect_exit(child(with_handler, lose_place), 7);
    expect_killed(child(NULL, lose_place), SIGSEGV);
    expect_killed(child(NULL, exhaust), SIGSEGV);
    say("refused\n");
    return 0;
}
