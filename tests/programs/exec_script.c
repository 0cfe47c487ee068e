// Running scripts: by a shell, by an interpreter that is this program itself, and without a first line.
// output: same
// stdout: ^script got one$
#include "check.h"

static void make_script(const char *name, const char *text) {
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    CHECK(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text) && close(file) == 0);
}

int main(int count, char **arguments) {
    if (count > 2 && strcmp(arguments[1], "as-interpreter") == 0) {
        say("interpreting %s\n", arguments[2]);
        return 6;
    }
    make_script("script", "#!/bin/sh\necho script got $1\nexit 5\n");
    char self[4000] = {0};
    char text[4100];
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    // The kernel reads no more than 255 bytes of the first line.
    CHECK(symlink(self, "interpreter") == 0);
    snprintf(text, sizeof text, "#!./interpreter as-interpreter\nanything\n");
    make_script("own", text);
    make_script("bare", "exit 0\n");
    char *names[] = {"./script", "./own", "./bare"};
    int expected[] = {5, 6, 99};
    for (int index = 0; index < 3; index++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            execl(names[index], names[index], "one", NULL);
            _exit(errno == ENOEXEC ? 99 : 1);
        }
        expect_exit(child, expected[index]);
    }
    return 0;
}
