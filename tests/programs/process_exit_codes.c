// Exit statuses: every way to exit, and the status that the parent sees.
// output: same
#include "check.h"

static int code_of(void (*leave)(int), int code) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        leave(code);
        abort();
    }
    int status = wait_for(child);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void raw_exit(int code) {
    syscall(SYS_exit, code);
}

static void raw_exit_group(int code) {
    syscall(SYS_exit_group, code);
}

static void handler(int code, void *unused UNUSED) {
    _exit(code + 1);
}

static void through_handler(int code) {
    CHECK(on_exit(handler, NULL) == 0);
    exit(code);
}

int main(void) {
    CHECK(code_of(exit, 0) == 0 && code_of(exit, 255) == 255 && code_of(_exit, 256) == 0 && code_of(_exit, -1) == 255);
    CHECK(code_of(raw_exit, 17) == 17 && code_of(raw_exit_group, 18) == 18);
    CHECK(code_of(through_handler, 30) == 31);
    say("all codes\n");
    return 0;
}
