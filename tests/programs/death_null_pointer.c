// Reading through a null pointer.
// signal: SEGV
// output: same
// stdout: ^before$
#include "check.h"

int main(void) {
    say("before\n");
    volatile int *nowhere = NULL;
    __asm__("" : "+r"(nowhere));
    return *nowhere;
}
