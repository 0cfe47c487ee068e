// abort: output before it is kept, and the signal is seen outside.
// signal: ABRT
// output: same
// stdout: ^before$
#include "check.h"

int main(void) {
    say("before\n");
    abort();
}
