// A pseudo-terminal: names, modes, window size, line discipline, raw mode and end of file.
// needs: pty
#include "check.h"
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

int main(void) {
    guard();
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    char name[64];
    CHECK(ptsname_r(master, name, sizeof name) == 0);
    int slave = open(name, O_RDWR | O_NOCTTY);
    CHECK(slave >= 0 && isatty(slave) == 1);
    struct winsize size = {40, 100, 0, 0};
    struct winsize found = {0};
    CHECK(ioctl(master, TIOCSWINSZ, &size) == 0 && ioctl(slave, TIOCGWINSZ, &found) == 0);
    CHECK(found.ws_row == 40 && found.ws_col == 100);
    CHECK(write(master, "typ\x7f" "ed\n", 7) == 7);
    char text[40] = {0};
    // The line editor has deleted one letter.
    CHECK(read(slave, text, sizeof text) == 5 && memcmp(text, "tyed\n", 5) == 0);
    struct termios modes;
    CHECK(tcgetattr(slave, &modes) == 0 && (modes.c_lflag & ICANON));
    cfmakeraw(&modes);
    CHECK(tcsetattr(slave, TCSANOW, &modes) == 0 && tcflush(master, TCIOFLUSH) == 0);
    int number = -1;
    CHECK(ioctl(master, TIOCGPTN, &number) == 0);
    CHECK(write(slave, "a\n", 2) == 2);
    memset(text, 0, sizeof text);
    ssize_t got = read(master, text, sizeof text);
    CHECK(got == 2 && memcmp(text, "a\n", 2) == 0);
    CHECK(close(slave) == 0);
    CHECK_FAILS(read(master, text, sizeof text), EIO);
    say("%s is number %d\n", name, number);
    return 0;
}
