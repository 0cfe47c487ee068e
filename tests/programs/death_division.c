// Dividing by zero.
// signal: FPE
#include "check.h"

int main(int count, char **arguments UNUSED) {
    volatile int zero = count - 1;
    say("process %d\n", getpid());
    // In assembly, because the compiler may do anything with such a division.
    int quotient = 10;
    int rest = 0;
    __asm__ volatile("idivl %2" : "+a"(quotient), "+d"(rest) : "m"(zero));
    return quotient;
}
