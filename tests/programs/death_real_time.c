// A real-time signal without a handler kills.
// signal: RTMIN
#include "check.h"

int main(void) {
    say("process %d\n", getpid());
    sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 1});
    return 0;
}
