// SIGKILL sent to itself: nothing in the process gets a chance to act.
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
