// A new user namespace: another identity, all capabilities, mapped users.
// needs: userns
#include "check.h"
#include <sched.h>

static void put(const char *path, const char *text) {
    int file = open(path, O_WRONLY);
    CHECK(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text) && close(file) == 0);
}

int main(void) {
    guard();
    uid_t outside = getuid();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(unshare(CLONE_NEWUSER) == 0);
        CHECK(getuid() == 65534 || getuid() == outside);
        char text[64];
        snprintf(text, sizeof text, "0 %u 1", outside);
        put("/proc/self/setgroups", "deny");
        put("/proc/self/uid_map", text);
        CHECK(getuid() == 0 && geteuid() == 0);
        CHECK(sethostname("inside", 6) == -1 && errno == EPERM);
        CHECK(unshare(CLONE_NEWUTS) == 0 && sethostname("inside", 6) == 0);
        char name[20] = {0};
        CHECK(gethostname(name, sizeof name) == 0 && strcmp(name, "inside") == 0);
        _exit(0);
    }
    expect_exit(child, 0);
    say("uid %u child %d\n", outside, child);
    return 0;
}
