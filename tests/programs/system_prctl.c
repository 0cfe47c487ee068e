// prctl and arch_prctl: names, dumpability, timer slack, death signals, and the segment bases.
#include "check.h"
#include <asm/prctl.h>
#include <sys/prctl.h>

int main(void) {
    char name[16];
    CHECK(prctl(PR_GET_NAME, name) == 0 && strcmp(name, "system_prctl") == 0);
    CHECK(prctl(PR_SET_NAME, "a name that is too long") == 0 && prctl(PR_GET_NAME, name) == 0);
    CHECK(strcmp(name, "a name that is ") == 0);
    int file = open("/proc/self/comm", O_RDONLY);
    char text[20] = {0};
    CHECK(file >= 0 && read(file, text, sizeof text - 1) == 16 && strcmp(text, "a name that is \n") == 0);
    CHECK(prctl(PR_GET_DUMPABLE) == 1 && prctl(PR_SET_DUMPABLE, 0) == 0 && prctl(PR_GET_DUMPABLE) == 0);
    CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
    int number = -1;
    CHECK(prctl(PR_SET_PDEATHSIG, SIGUSR1) == 0 && prctl(PR_GET_PDEATHSIG, &number) == 0 && number == SIGUSR1);
    CHECK(prctl(PR_SET_PDEATHSIG, 0) == 0);
    CHECK(prctl(PR_SET_TIMERSLACK, 12345) == 0 && prctl(PR_GET_TIMERSLACK) == 12345);
    CHECK(prctl(PR_GET_SECCOMP) == 0);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    CHECK(prctl(PR_GET_CHILD_SUBREAPER, &number) == 0 && number == 0);
    CHECK_FAILS(prctl(9999), EINVAL);
    unsigned long base = 0;
    CHECK(syscall(SYS_arch_prctl, ARCH_GET_FS, &base) == 0 && base != 0);
    // The program gets the other segment register only as far as it asks for it.
    CHECK(syscall(SYS_arch_prctl, ARCH_SET_FS, base) == 0);
    say("thread area at %lx\n", base);
    return 0;
}
