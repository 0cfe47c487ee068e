// Gives up root for good, then forks and executes as the user nobody.
// needs: root
// flags: -static
#include "check.h"
#include <grp.h>
#include <sys/prctl.h>

int main(int count, char **arguments) {
    guard();
    if (count > 1) {
        CHECK(getuid() == 65534 && geteuid() == 65534 && getgid() == 65534);
        say("%s as %d\n", arguments[1], getuid());
        return 0;
    }
    int self = open("/proc/self/exe", O_RDONLY);
    CHECK(self >= 0 && setgroups(0, NULL) == 0 && setresgid(65534, 65534, 65534) == 0);
    CHECK(setresuid(65534, 65534, 65534) == 0);
    CHECK_FAILS(setuid(0), EPERM);
    CHECK_FAILS(chroot("/"), EPERM);
    // A change of user makes the process undumpable: its /proc files belong to root now.
    CHECK(prctl(PR_GET_DUMPABLE) != 1);
    CHECK_FAILS(open("/proc/self/mem", O_RDWR), EACCES);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        // By descriptor, as the user nobody may not reach the program's folder.
        fexecve(self, (char *[]){"self", "running", NULL}, (char *[]){NULL});
        _exit(errno);
    }
    expect_exit(child, 0);
    return 0;
}
