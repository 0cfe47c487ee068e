// A breakpoint instruction without a debugger.
// signal: TRAP
#include "check.h"

int main(void) {
    say("process %d\n", getpid());
    __asm__ volatile("int3");
    return 0;
}
