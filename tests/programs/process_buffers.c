// Unflushed output is copied by fork and written twice; exit handlers run in both.
// output: same
// stdout: ^twice\nexit handler\ntwice\nonce\nexit handler$
#include "check.h"

static void at_exit(void) {
    printf("exit handler\n");
}

int main(void) {
    CHECK(atexit(at_exit) == 0);
    CHECK(setvbuf(stdout, NULL, _IOFBF, 4096) == 0);
    printf("twice\n");
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        exit(0);
    }
    expect_exit(child, 0);
    fflush(stdout);
    // Only the parent comes here.
    say("once\n");
    return 0;
}
