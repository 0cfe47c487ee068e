// A hundred children at once, each with its own exit code; they end in any order.
#include "check.h"

int main(void) {
    guard();
    int seen[100] = {0};
    pid_t children[100];
    for (int index = 0; index < 100; index++) {
        children[index] = fork();
        CHECK(children[index] >= 0);
        if (children[index] == 0) {
            say("%d:%d\n", index, getpid());
            _exit(index);
        }
    }
    for (int count = 0; count < 100; count++) {
        int status;
        pid_t child = wait(&status);
        CHECK(child > 0 && WIFEXITED(status));
        int index = WEXITSTATUS(status);
        CHECK(index < 100 && children[index] == child && !seen[index]);
        seen[index] = 1;
        say("%d ended\n", child);
    }
    CHECK_FAILS(wait(NULL), ECHILD);
    return 0;
}
