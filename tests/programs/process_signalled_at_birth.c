// A signal kills a child before its first instruction, also a signal that faults raise.
// output: same
// calls: varies
#include "check.h"

enum { ROUNDS = 60 };

int main(void) {
    static const int numbers[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGTRAP, SIGSYS, SIGUSR1, SIGTERM};
    alarm(120);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0) {
                pause();
                _exit(1);
            }
            CHECK(kill(child, numbers[i]) == 0);
            expect_killed(child, numbers[i]);
        }
    }
    say("all died\n");
    return 0;
}
