// A child makes a session with a controlling terminal; Ctrl-C typed at the other end interrupts it.
// needs: pty
#include "check.h"
#include <sys/ioctl.h>
#include <termios.h>

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    interrupted = 1;
}

static void child(const char *name) {
    CHECK(setsid() == getpid());
    alarm(10);
    handle(SIGINT, on_interrupt, 0);
    int terminal = open(name, O_RDWR | O_NOCTTY);
    CHECK(terminal >= 0 && ioctl(terminal, TIOCSCTTY, 0) == 0);
    CHECK(tcgetpgrp(terminal) == getpid() && tcgetsid(terminal) == getpid());
    int own = open("/dev/tty", O_RDWR);
    CHECK(own >= 0 && write(own, "ready\n", 6) == 6);
    char text[10];
    CHECK_FAILS(read(terminal, text, sizeof text), EINTR);
    CHECK(interrupted == 1);
    CHECK(ioctl(terminal, TIOCNOTTY) == 0);
    _exit(4);
}

int main(void) {
    guard();
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    char name[64];
    CHECK(ptsname_r(master, name, sizeof name) == 0);
    int kept = open(name, O_RDWR | O_NOCTTY);
    CHECK(kept >= 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        // Leaving the terminal sends SIGHUP to its foreground group, which is the child itself.
        signal(SIGHUP, SIG_IGN);
        child(name);
    }
    char text[40];
    ssize_t length = 0;
    while (length < 7) {
        ssize_t got = read(master, text + length, sizeof text - length);
        CHECK(got > 0);
        length += got;
    }
    CHECK(memcmp(text, "ready\r\n", 7) == 0);
    usleep(20000);
    CHECK(write(master, "\3", 1) == 1);
    expect_exit(pid, 4);
    say("session %d had %s\n", pid, name);
    return 0;
}
