// Four children write to the console without order: replay must show the same interleaving.
#include "check.h"

int main(void) {
    guard();
    for (int index = 0; index < 4; index++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            for (int line = 0; line < 50; line++) {
                dprintf(line % 5 == 0 ? STDERR_FILENO : STDOUT_FILENO, "child %d line %d\n", index, line);
            }
            _exit(0);
        }
    }
    for (int index = 0; index < 4; index++) {
        int status;
        CHECK(wait(&status) > 0 && status == 0);
    }
    return 0;
}
