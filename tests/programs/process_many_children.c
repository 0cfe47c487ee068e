// More children, one after the other, than a session can hold at once.
#include "check.h"
#include <sys/wait.h>

enum { CHILDREN = 4300 };

int main(void) {
    unsigned long sum = 0;
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(i % 7);
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == i % 7);
        sum += (unsigned long)child;
    }
    say("%d children, numbers add up to %lu\n", CHILDREN, sum);
    return 0;
}
