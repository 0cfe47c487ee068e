// fork: numbers, separate memory, shared file offsets, and a grandchild.
#include "check.h"

static int variable = 1;

int main(void) {
    int file = file_with("data", "abcdefgh");
    pid_t parent = getpid();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(getppid() == parent && getpid() != parent && syscall(SYS_gettid) == getpid());
        variable = 2;
        char byte;
        CHECK(read(file, &byte, 1) == 1 && byte == 'a');
        pid_t grandchild = fork();
        CHECK(grandchild >= 0);
        if (grandchild == 0) {
            variable = 3;
            _exit(variable);
        }
        say("child %d grandchild %d\n", getpid(), grandchild);
        expect_exit(grandchild, 3);
        _exit(variable);
    }
    expect_exit(child, 2);
    CHECK(variable == 1 && lseek(file, 0, SEEK_CUR) == 1);
    // The raw call, without the library's bookkeeping.
    pid_t raw = syscall(SYS_fork);
    CHECK(raw >= 0);
    if (raw == 0) {
        _exit(syscall(SYS_getppid) == parent ? 6 : 1);
    }
    expect_exit(raw, 6);
    say("parent %d children %d %d\n", parent, child, raw);
    return 0;
}
