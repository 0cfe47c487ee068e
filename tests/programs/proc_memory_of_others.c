// The memory of another process can be read, but a recorded program cannot write to it (docs/LIMITS.md).
// modes: record replay slow
// stdout: ^read 5$
#include "check.h"
#include <sys/uio.h>

static volatile int target = 5;

int main(void) {
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    char name[64];
    int value = 0;
    snprintf(name, sizeof name, "/proc/%d/mem", child);
    CHECK_FAILS(open(name, O_RDWR), EACCES);
    int memory = open(name, O_RDONLY);
    CHECK(memory >= 0 && pread(memory, &value, sizeof value, (off_t)(uintptr_t)&target) == sizeof value);
    struct iovec local = {&value, sizeof value}, remote = {(void *)&target, sizeof value};
    CHECK_FAILS(process_vm_writev(child, &local, 1, &remote, 1, 0), EPERM);
    CHECK(kill(child, SIGTERM) == 0);
    expect_killed(child, SIGTERM);
    say("read %d\n", value);
    return 0;
}
