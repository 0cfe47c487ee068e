// SA_NODEFER lets a handler's own signal interrupt it; SA_RESETHAND works once; sa_mask blocks other signals.
// output: same
#include "check.h"

static volatile int depth;
static volatile int deepest;

static void on_signal(int number, siginfo_t *info UNUSED, void *context UNUSED) {
    depth++;
    if (depth > deepest) {
        deepest = depth;
    }
    if (depth < 4) {
        raise(number);
    }
    depth--;
}

static void on_masked(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    int before = deepest;
    raise(SIGUSR1);
    // This handler's mask blocks it.
    CHECK(deepest == before);
}

int main(void) {
    handle(SIGUSR1, on_signal, SA_NODEFER);
    CHECK(raise(SIGUSR1) == 0 && deepest == 4 && depth == 0);
    deepest = 0;
    handle(SIGUSR2, on_signal, SA_RESETHAND);
    depth = 10;
    CHECK(raise(SIGUSR2) == 0 && deepest == 11);
    struct sigaction action;
    CHECK(sigaction(SIGUSR2, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
    depth = 0;
    deepest = 0;
    action = (struct sigaction){.sa_sigaction = on_masked, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    CHECK(sigaction(SIGHUP, &action, NULL) == 0 && raise(SIGHUP) == 0);
    CHECK(deepest == 4);
    say("as the flags say\n");
    return 0;
}
