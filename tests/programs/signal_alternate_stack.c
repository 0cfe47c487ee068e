// A stack overflow handled on the alternate stack; the handler jumps out of it, three times.
// flags: -Wno-infinite-recursion
#include "check.h"
#include <setjmp.h>
#include <sys/resource.h>

static sigjmp_buf back;
static char alternate[32768];
static volatile int overflows;

static void on_fault(int number UNUSED, siginfo_t *info, void *context UNUSED) {
    char local;
    CHECK(&local >= alternate && &local < alternate + sizeof alternate);
    CHECK(info->si_addr != NULL);
    stack_t stack;
    CHECK(sigaltstack(NULL, &stack) == 0 && (stack.ss_flags & SS_ONSTACK));
    overflows++;
    siglongjmp(back, 1);
}

__attribute__((noinline)) static int endless(int depth) {
    volatile char frame[4000];
    frame[0] = (char)depth;
    return endless(depth + 1) + frame[0];
}

int main(void) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
    limit.rlim_cur = 1 << 20;
    CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);
    CHECK(sigaltstack(&(stack_t){.ss_sp = alternate, .ss_size = sizeof alternate}, NULL) == 0);
    handle(SIGSEGV, on_fault, SA_ONSTACK);
    for (volatile int round = 0; round < 3; round++) {
        if (sigsetjmp(back, 1) == 0) {
            endless(0);
        }
    }
    CHECK(overflows == 3);
    stack_t stack;
    CHECK(sigaltstack(NULL, &stack) == 0 && stack.ss_sp == alternate && stack.ss_flags == 0);
    CHECK_FAILS(sigaltstack(&(stack_t){.ss_sp = alternate, .ss_size = 100}, NULL), ENOMEM);
    say("alternate stack at %p\n", (void *)alternate);
    return 0;
}
