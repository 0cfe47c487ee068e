// An orphan gets a new parent and goes on; a pipe reports its end.
#include "check.h"

int main(void) {
    guard();
    int done[2];
    CHECK(pipe(done) == 0);
    pid_t middle = fork();
    CHECK(middle >= 0);
    if (middle == 0) {
        pid_t parent = getpid();
        pid_t orphan = fork();
        CHECK(orphan >= 0);
        if (orphan == 0) {
            alarm(10);
            while (getppid() == parent) {
                usleep(500);
            }
            int adopted = getppid();
            CHECK(write(done[1], &adopted, sizeof adopted) == sizeof adopted);
            _exit(0);
        }
        _exit(0);
    }
    CHECK(close(done[1]) == 0);
    expect_exit(middle, 0);
    int adopted = 0;
    CHECK(read(done[0], &adopted, sizeof adopted) == sizeof adopted && adopted != middle && adopted > 0);
    char byte;
    CHECK(read(done[0], &byte, 1) == 0);
    say("adopted by %d\n", adopted);
    return 0;
}
