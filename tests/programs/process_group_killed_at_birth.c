// SIGKILL to a group reaches the children that its sender has just made.
// output: same
// calls: varies
#include "check.h"

enum { ROUNDS = 30, CHILDREN = 5 };

static void lead(void) {
    CHECK(setpgid(0, 0) == 0);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            for (;;) {
                pause();
            }
        }
    }
    kill(0, SIGKILL);
    _exit(1);
}

int main(void) {
    alarm(120);
    for (int round = 0; round < ROUNDS; round++) {
        int alive[2];
        char byte;
        CHECK(pipe(alive) == 0);
        pid_t leader = fork();
        CHECK(leader >= 0);
        if (leader == 0) {
            close(alive[0]);
            lead();
        }
        close(alive[1]);
        expect_killed(leader, SIGKILL);
        // Living processes hold the other end.
        CHECK(read(alive[0], &byte, 1) == 0);
        close(alive[0]);
    }
    say("all died\n");
    return 0;
}
