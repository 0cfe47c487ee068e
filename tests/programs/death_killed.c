// SIGKILL sent to itself: no code of the process runs afterwards.
// signal: KILL
// output: same
// calls: varies
// stdout: ^last words$
#include "check.h"

int main(void) {
    say("last words\n");
    kill(getpid(), SIGKILL);
    return 1;
}
