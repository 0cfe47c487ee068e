// An instruction that does not exist.
// signal: ILL
#include "check.h"

int main(void) {
    say("process %d\n", getpid());
    __asm__ volatile("ud2");
    return 0;
}
