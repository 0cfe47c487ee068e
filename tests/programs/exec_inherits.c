// What exec keeps and what it resets: descriptors, masks, pending signals, dispositions, process number, umask.
#include "check.h"

static void on_signal(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
}

static int second_life(char **arguments) {
    CHECK(atoi(arguments[1]) == getpid());
    CHECK(fcntl(50, F_GETFD) == 0);
    CHECK_FAILS(fcntl(51, F_GETFD), EBADF);
    char byte;
    CHECK(read(50, &byte, 1) == 1 && byte == 'b');
    struct sigaction action;
    CHECK(sigaction(SIGUSR1, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
    CHECK(sigaction(SIGUSR2, NULL, &action) == 0 && action.sa_handler == SIG_IGN);
    sigset_t set;
    CHECK(sigprocmask(SIG_SETMASK, NULL, &set) == 0 && sigismember(&set, SIGHUP) == 1 && sigismember(&set, SIGINT) == 0);
    CHECK(sigpending(&set) == 0 && sigismember(&set, SIGHUP) == 1);
    stack_t stack;
    CHECK(sigaltstack(NULL, &stack) == 0 && stack.ss_flags == SS_DISABLE);
    CHECK(umask(0) == 031);
    unsigned left = alarm(0);
    CHECK(left > 90 && left <= 100);
    say("still %d\n", getpid());
    return 0;
}

int main(int count, char **arguments) {
    if (count > 1) {
        return second_life(arguments);
    }
    int file = file_with("data", "abc");
    char byte;
    CHECK(read(file, &byte, 1) == 1 && dup2(file, 50) == 50 && dup3(file, 51, O_CLOEXEC) == 51);
    handle(SIGUSR1, on_signal, 0);
    signal(SIGUSR2, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && raise(SIGHUP) == 0);
    static char alternate[16384];
    CHECK(sigaltstack(&(stack_t){.ss_sp = alternate, .ss_size = sizeof alternate}, NULL) == 0);
    umask(031);
    alarm(100);
    char number[20];
    snprintf(number, sizeof number, "%d", getpid());
    execl("/proc/self/exe", "self", number, NULL);
    return 1;
}
