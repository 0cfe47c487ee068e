// Children that share memory with their parent are killed before, at and after their first instruction; the parent goes on.
#include "check.h"
#include <sys/mman.h>

int main(void) {
    guard();
    volatile int *counter = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(counter != MAP_FAILED);
    for (int round = 0; round < 40; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            ++*counter;
            for (;;) {
                pause();
            }
        }
        if (round % 4 == 3) {
            usleep(300);
        }
        CHECK(kill(child, SIGKILL) == 0);
        expect_killed(child, SIGKILL);
        ++*counter;
    }
    CHECK(*counter >= 40);
    say("process %d\n", getpid());
    return 0;
}
