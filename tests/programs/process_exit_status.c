// Tools around the program must return its exit status.
// status: 42
// output: same
// stdout: ^leaving with 42$
// stderr: ^and a word on the error stream$
#include "check.h"

int main(void) {
    say("leaving with 42\n");
    dprintf(STDERR_FILENO, "and a word on the error stream\n");
    return 42;
}
