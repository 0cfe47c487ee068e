// chroot into an empty folder: nothing outside can be reached, and the program goes on.
// needs: root
#include "check.h"

int main(void) {
    guard();
    CHECK(mkdir("root", 0700) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(chroot("root") == 0 && chdir("/") == 0);
        CHECK_FAILS(open("/proc/self/maps", O_RDONLY), ENOENT);
        CHECK_FAILS(execl("/bin/true", "true", NULL), ENOENT);
        char here[100];
        CHECK(getcwd(here, sizeof here) && strcmp(here, "/") == 0);
        CHECK(close(open("inside", O_CREAT | O_WRONLY, 0600)) == 0);
        pid_t grandchild = fork();
        CHECK(grandchild >= 0);
        if (grandchild == 0) {
            _exit(access("/inside", F_OK) == 0 ? 0 : 1);
        }
        expect_exit(grandchild, 0);
        _exit(0);
    }
    expect_exit(child, 0);
    CHECK(access("root/inside", F_OK) == 0);
    say("child %d\n", child);
    return 0;
}
