// Constructors and destructors around main run in their order, and each prints.
// output: same
// stdout: ^early\nlate\nmain\nfarewell\n$
#include "check.h"

__attribute__((constructor(201))) static void early(void) {
    say("early\n");
}

__attribute__((constructor(202))) static void late(void) {
    say("late\n");
}

__attribute__((destructor)) static void farewell(void) {
    say("farewell\n");
}

int main(void) {
    say("main\n");
    return 0;
}
