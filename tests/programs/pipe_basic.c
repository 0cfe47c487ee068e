// Pipes between a parent and a child, with flags, end of file and sizes.
#include "check.h"

int main(void) {
    guard();
    int there[2];
    int back[2];
    CHECK(pipe(there) == 0 && pipe2(back, O_CLOEXEC) == 0);
    CHECK(fcntl(back[0], F_GETFD) == FD_CLOEXEC && fcntl(there[0], F_GETFD) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(there[1]);
        char text[100];
        ssize_t got;
        while ((got = read(there[0], text, sizeof text)) > 0) {
            CHECK(write(back[1], text, got) == got);
        }
        CHECK(got == 0);
        int pid = getpid();
        CHECK(write(back[1], &pid, sizeof pid) == sizeof pid);
        _exit(0);
    }
    close(there[0]);
    for (int round = 0; round < 50; round++) {
        char text[4];
        CHECK(write(there[1], "ping", 4) == 4 && read(back[0], text, 4) == 4);
        CHECK(memcmp(text, "ping", 4) == 0);
    }
    CHECK(close(there[1]) == 0);
    int said = 0;
    CHECK(read(back[0], &said, sizeof said) == sizeof said && said == child);
    expect_exit(child, 0);
    int size = fcntl(back[0], F_GETPIPE_SZ);
    CHECK(size >= 4096 && fcntl(back[0], F_SETPIPE_SZ, 4096) == 4096);
    say("child %d pipe %d\n", said, size);
    return 0;
}
