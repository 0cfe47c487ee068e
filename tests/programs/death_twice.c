// Processes that fail while they fail: abort in a handler, a fault in the handler of a fault, and one whose signal is not blocked, until the stack is full.
// output: same
// flags: -O1
#include "check.h"
#include <sys/resource.h>

static void aborts(int number) {
    (void)number;
    abort();
}

static void faults(int number) {
    (void)number;
    __asm__ volatile("movb $0, 0x1000");
}

static void divides(int number) {
    (void)number;
    __asm__ volatile("xor %%ecx, %%ecx\n xor %%edx, %%edx\n div %%ecx" ::: "rax", "rcx", "rdx", "cc");
}

static pid_t child(int number, void (*handler)(int), int flags) {
    pid_t pid = fork();
    if (pid == 0) {
        struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
        sigaction(number, &action, NULL);
        struct rlimit limit = {1 << 18, 1 << 18};
        setrlimit(RLIMIT_STACK, &limit);
        faults(0);
        _exit(0);
    }
    return pid;
}

int main(void) {
    expect_killed(child(SIGSEGV, aborts, 0), SIGABRT);
    expect_killed(child(SIGSEGV, faults, 0), SIGSEGV);
    expect_killed(child(SIGSEGV, faults, SA_NODEFER), SIGSEGV);
    expect_killed(child(SIGSEGV, divides, 0), SIGFPE);
    expect_killed(child(SIGSEGV, faults, SA_RESETHAND), SIGSEGV);
    expect_killed(child(SIGSEGV, SIG_IGN, 0), SIGSEGV);
    say("all dead\n");
    return 0;
}
