// Signals that arrive during an exec: handled, blocked, ignored, deadly.
// group: exec
#include "check.h"

static volatile sig_atomic_t handled;

static void handler(int number) { handled += number; }

/* Set before the fork, so that the child has it from the start. */
static void prepare(int kind) {
    void (*const what[])(int) = {handler, handler, SIG_IGN, SIG_DFL};
    struct sigaction action = {.sa_handler = what[kind]};
    sigset_t set;
    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(kind == 1 ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

int main(void) {
    static int died[4], ended[4];
    guard();
    for (int round = 0; round < 120; round++) {
        int status, kind = round % 4;
        prepare(kind);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            execl("/bin/true", "true", NULL);
            _exit(77);
        }
        for (int shots = 0; shots < 6; shots++) {
            for (volatile int spins = 0; spins < round * 12000 / (shots + 1); spins++) {
            }
            kill(pid, SIGUSR1);
        }
        CHECK(waitpid(pid, &status, 0) == pid);
        if (WIFSIGNALED(status)) {
            CHECK(WTERMSIG(status) == SIGUSR1 && kind != 2);
            died[kind]++;
        } else {
            CHECK(WEXITSTATUS(status) == 0);
            ended[kind]++;
        }
    }
    say("ended %d %d %d %d, died %d %d %d %d\n", ended[0], ended[1], ended[2], ended[3], died[0], died[1], died[2], died[3]);
    return 0;
}
