// Signals whose default is to kill end a child that computes for ever.
// group: forced
// output: same
// calls: varies
#include "check.h"

static void spin(void) {
    volatile unsigned long spins = 0;
    for (;;) {
        spins++;
    }
}

int main(void) {
    static const int numbers[] = {SIGTERM, SIGUSR1, SIGINT, SIGKILL};
    guard();
    for (unsigned index = 0; index < sizeof numbers / sizeof *numbers; index++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            guard(); // in case its parent fails
            spin();
        }
        usleep(5000);
        CHECK(kill(child, numbers[index]) == 0);
        expect_killed(child, numbers[index]);
        say("killed by %d\n", numbers[index]);
    }
    return 0;
}
