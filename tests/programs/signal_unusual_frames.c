// Frames that a handler has damaged: unknown bits of mxcsr are refused; without its magic numbers the extended state is what FXSAVE saves; a null pointer to it means the initial state.
// output: same
// flags: -O1
// needs: avx2
#include "check.h"
#include <ucontext.h>

static char *area_of(void *context) {
    return (char *)((ucontext_t *)context)->uc_mcontext.fpregs;
}

static void bad_control(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    *(uint32_t *)(area_of(context) + 24) |= 0x10000;
}

static void no_first_mark(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    *(uint32_t *)(area_of(context) + 464) = 0;
}

static void no_second_mark(int number, siginfo_t *info, void *context) {
    uint32_t bytes;
    (void)number, (void)info;
    memcpy(&bytes, area_of(context) + 480, sizeof bytes);
    *(uint32_t *)(area_of(context) + bytes) = 0;
}

static void fewer_features(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    *(uint64_t *)(area_of(context) + 472) = 3;
}

static void no_state(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ((ucontext_t *)context)->uc_mcontext.fpregs = NULL;
}

__attribute__((target("avx"))) static void try(const char *what, void (*handler)(int, siginfo_t *, void *)) {
    uint64_t found[4];
    long call = SYS_kill;
    handle(SIGUSR1, handler, 0);
    __asm__ volatile("vpcmpeqd %%xmm5, %%xmm5, %%xmm5\n vinsertf128 $1, %%xmm5, %%ymm5, %%ymm5\n syscall\n"
                     " vmovdqu %%ymm5, %[found]\n vzeroupper"
                     : "+a"(call), [found] "=m"(found)
                     : "D"(getpid()), "S"(SIGUSR1)
                     : "rcx", "r11", "memory", "xmm5");
    say("%s: %016lx %016lx\n", what, found[0], found[2]);
}

int main(void) {
    pid_t child = fork();
    if (child == 0) {
        try("bad control", bad_control);
        _exit(0);
    }
    expect_killed(child, SIGSEGV);
    try("no first mark", no_first_mark);
    try("no second mark", no_second_mark);
    try("fewer features", fewer_features);
    try("no state", no_state);
    return 0;
}
