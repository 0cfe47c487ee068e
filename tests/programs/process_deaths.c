// Children die of each signal whose default is death; the parent sees which one it was.
#include "check.h"
#include <sys/resource.h>

int main(void) {
    guard();
    struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
    int deadly[] = {SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGUSR1, SIGSEGV,
                    SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGSTKFLT, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGIO, SIGPWR,
                    SIGSYS, SIGRTMIN, SIGRTMAX};
    for (size_t index = 0; index < sizeof deadly / sizeof deadly[0]; index++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            signal(deadly[index], SIG_DFL);
            raise(deadly[index]);
            _exit(1);
        }
        expect_killed(child, deadly[index]);
        say("%d died of %d\n", child, deadly[index]);
    }
    int harmless[] = {SIGCHLD, SIGURG, SIGWINCH, SIGCONT};
    for (size_t index = 0; index < sizeof harmless / sizeof harmless[0]; index++) {
        signal(harmless[index], SIG_DFL);
        CHECK(raise(harmless[index]) == 0);
    }
    return 0;
}
