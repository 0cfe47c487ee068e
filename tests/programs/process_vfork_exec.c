// vfork: the parent stands still until its child has executed another program or has ended.
// output: same
#include "check.h"

int main(int count, char **arguments) {
    if (count > 1) {
        say("in the new program: %s\n", arguments[1]);
        return 12;
    }
    volatile int shared = 1;
    pid_t child = vfork();
    if (child == 0) {
        shared = 2;
        execl("/proc/self/exe", "self", "argument", NULL);
        _exit(1);
    }
    CHECK(child > 0 && shared == 2);
    expect_exit(child, 12);
    child = vfork();
    if (child == 0) {
        shared = 3;
        _exit(4);
    }
    CHECK(child > 0 && shared == 3);
    expect_exit(child, 4);
    child = vfork();
    if (child == 0) {
        // After a failed exec the child is still in its parent's memory.
        execl("/nonexistent", "x", NULL);
        shared = errno;
        _exit(5);
    }
    CHECK(child > 0 && shared == ENOENT);
    expect_exit(child, 5);
    return 0;
}
