// A subreaper inherits its grandchildren and reaps them.
#include "check.h"
#include <sys/prctl.h>

int main(void) {
    guard();
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    int numbers[2];
    CHECK(pipe(numbers) == 0);
    pid_t middle = fork();
    CHECK(middle >= 0);
    if (middle == 0) {
        pid_t orphan = fork();
        CHECK(orphan >= 0);
        if (orphan == 0) {
            usleep(3000);
            _exit(9);
        }
        CHECK(write(numbers[1], &orphan, sizeof orphan) == sizeof orphan);
        _exit(8);
    }
    pid_t orphan;
    CHECK(read(numbers[0], &orphan, sizeof orphan) == sizeof orphan);
    expect_exit(middle, 8);
    expect_exit(orphan, 9);
    CHECK_FAILS(wait(NULL), ECHILD);
    say("middle %d orphan %d\n", middle, orphan);
    return 0;
}
