// A program that executes itself twenty times, counting down; the process stays the same.
// args: 20
#include "check.h"

int main(int count, char **arguments) {
    CHECK(count >= 2);
    int left = atoi(arguments[1]);
    if (count == 3) {
        CHECK(atoi(arguments[2]) == getpid());
    }
    if (left == 0) {
        say("process %d to the end\n", getpid());
        return 0;
    }
    char next[20];
    char number[20];
    snprintf(next, sizeof next, "%d", left - 1);
    snprintf(number, sizeof number, "%d", getpid());
    // Memory that must not survive.
    memset(malloc(1 << 20), left, 1 << 20);
    execl("/proc/self/exe", "self", next, number, NULL);
    return 1;
}
