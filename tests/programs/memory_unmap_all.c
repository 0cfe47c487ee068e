// A process that unmaps everything has nowhere to return to.
// output: same
#include "check.h"
#include <sys/mman.h>

int main(void) {
    guard();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        munmap(NULL, 0x7ffffffff000);
        _exit(1);
    }
    expect_killed(child, SIGSEGV);
    say("killed\n");
    return 0;
}
