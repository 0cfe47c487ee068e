// Handlers that switch to each other's contexts return in another order than they began.
// output: same
// flags: -O1
#include "check.h"
#include <ucontext.h>

static ucontext_t contexts[2];
static char stack[65536];
static int current;
static volatile int count;

static void handler(int number) {
    (void)number;
    int own = current;
    count++;
    current = !own;
    CHECK(swapcontext(&contexts[own], &contexts[current]) == 0);
}

static void compute(int self) {
    for (int round = 0; round < 6; round++) {
        kill(getpid(), SIGUSR1);
        getppid();
        say("%d: %d\n", self, round);
    }
    _exit(count > 5 ? 0 : 1);
}

static void other(void) {
    compute(1);
}

int main(void) {
    CHECK(getcontext(&contexts[1]) == 0);
    contexts[1].uc_stack.ss_sp = stack;
    contexts[1].uc_stack.ss_size = sizeof stack;
    makecontext(&contexts[1], other, 0);
    struct sigaction action = {.sa_handler = handler};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    compute(0);
}
