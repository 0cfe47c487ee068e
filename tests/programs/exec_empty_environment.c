// A program started with nothing: no environment, and an empty argument list that the kernel fills.
// output: same
#include "check.h"

extern char **environ;

int main(int count, char **arguments) {
    if (environ[0] == NULL) {
        // Kernels before 5.18 really start it without arguments.
        CHECK(count == 0 || (count == 1 && arguments[0][0] == 0));
        say("started with nothing\n");
        return 0;
    }
    execve("/proc/self/exe", (char *[]){NULL}, (char *[]){NULL});
    return 1;
}
