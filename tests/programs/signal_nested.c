// Nested handlers: each runs on top of the other, and the masks are restored in order.
// output: same
#include "check.h"

// Volatile: the compiler assumes that calls like raise and kill run none of this file's functions.
static volatile char trail[64];
static volatile size_t length;

static void note(const char *text) {
    while (*text) {
        trail[length++] = *text++;
    }
}

static void on_inner(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    note("(inner");
    raise(SIGHUP);
    note(")");
}

static void on_deepest(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    note("<deepest>");
}

static void on_outer(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    note("[outer ");
    // Its own signal is blocked while it runs, and arrives once more afterwards.
    if (length < 10) {
        raise(SIGUSR1);
    }
    raise(SIGUSR2);
    note("]");
}

int main(void) {
    handle(SIGUSR1, on_outer, 0);
    handle(SIGUSR2, on_inner, 0);
    handle(SIGHUP, on_deepest, 0);
    CHECK(raise(SIGUSR1) == 0);
    const char *expected = "[outer (inner<deepest>)][outer (inner<deepest>)]";
    CHECK(length == strlen(expected));
    for (size_t index = 0; index < length; index++) {
        CHECK(trail[index] == expected[index]);
    }
    say("%s\n", expected);
    return 0;
}
