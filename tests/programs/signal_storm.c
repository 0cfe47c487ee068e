// Two children send a thousand signals to a parent that reads and writes; only signals that may be merged are lost.
#include "check.h"

static volatile sig_atomic_t usual;
static volatile sig_atomic_t queued;

static void on_usual(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    usual++;
}

static void on_queued(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    queued++;
}

int main(void) {
    guard();
    handle(SIGUSR1, on_usual, SA_RESTART);
    handle(SIGRTMIN + 3, on_queued, SA_RESTART);
    pid_t parent = getpid();
    int ends[2];
    CHECK(pipe(ends) == 0);
    for (int index = 0; index < 2; index++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            for (int round = 0; round < 500; round++) {
                CHECK(index == 0 ? kill(parent, SIGUSR1) == 0 : sigqueue(parent, SIGRTMIN + 3, (union sigval){0}) == 0);
                CHECK(round % 10 != 0 || write(ends[1], "x", 1) == 1);
            }
            _exit(0);
        }
    }
    CHECK(close(ends[1]) == 0);
    int total = 0;
    ssize_t got;
    char text[7];
    while ((got = read(ends[0], text, sizeof text)) > 0) {
        total += got;
    }
    CHECK(got == 0 && total == 100);
    int status;
    CHECK(wait(&status) > 0 && status == 0 && wait(&status) > 0 && status == 0);
    CHECK(queued == 500 && usual >= 1 && usual <= 500);
    say("%d and %d signals\n", (int)usual, (int)queued);
    return 0;
}
