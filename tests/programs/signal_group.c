// Signals to the whole process group, of which the recorder may be a member, end no process but the program's.
// output: same
#include "check.h"
#include <sys/wait.h>

static volatile sig_atomic_t seen;

static void note(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    seen++;
}

int main(void) {
    static const int numbers[] = {SIGABRT, SIGTRAP, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU,
                                  SIGIO,   SIGPWR,  SIGSYS,  SIGURG,  SIGHUP,  SIGINT,    SIGQUIT, SIGTERM};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        handle(numbers[i], note, 0);
        CHECK(kill(0, numbers[i]) == 0 && seen == (int)i + 1);
    }
    CHECK(signal(SIGTRAP, SIG_IGN) != SIG_ERR && kill(0, SIGTRAP) == 0);
    say("%d\n", (int)seen);
    return 0;
}
