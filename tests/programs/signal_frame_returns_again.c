// A handler on its own stack returns three times through one frame: its context was saved, and is set again.
// output: same
// flags: -O1
#include "check.h"
#include <ucontext.h>

static char stack[65536];
static ucontext_t inside;
static volatile int rounds;

static void handler(int number) {
    (void)number;
    CHECK(getcontext(&inside) == 0);
}

int main(void) {
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK(sigaltstack(&alternate, NULL) == 0);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    // Inline, as a function would return to an address that a later call has overwritten.
    long number = SYS_kill, pid = getpid();
    __asm__ volatile("syscall" : "+a"(number) : "D"(pid), "S"(SIGUSR1) : "rcx", "r11", "memory");
    getppid();
    if (++rounds < 4) {
        setcontext(&inside);
    }
    say("%d rounds\n", rounds);
    return 0;
}
