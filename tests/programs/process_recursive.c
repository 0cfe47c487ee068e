// A tree of processes, each making two more, four levels deep; the sum comes up through exit codes.
#include "check.h"

static int grow(int depth) {
    int sum = 1;
    if (depth > 0) {
        pid_t children[2];
        for (int index = 0; index < 2; index++) {
            children[index] = fork();
            CHECK(children[index] >= 0);
            if (children[index] == 0) {
                _exit(grow(depth - 1));
            }
        }
        for (int index = 0; index < 2; index++) {
            int status = wait_for(children[index]);
            CHECK(WIFEXITED(status));
            sum += WEXITSTATUS(status);
        }
    }
    return sum;
}

int main(void) {
    guard();
    CHECK(grow(4) == 31);
    say("31 processes under %d\n", getpid());
    return 0;
}
