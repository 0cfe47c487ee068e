// An ioctl on a closed descriptor fails with EBADF, even one that recordings refuse.
// output: same
#include "check.h"
#include <sys/ioctl.h>
#include <termios.h>

int main(void) {
    static const unsigned long requests[] = {FIONREAD, TCGETS, TIOCSTI, FIOCLEX, 0x12345678, 0x2401, 0x4600};
    char buffer[256];
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        CHECK_FAILS(ioctl(-1, requests[i], buffer), EBADF);
        CHECK_FAILS(ioctl(99, requests[i], buffer), EBADF);
        CHECK_FAILS(ioctl(99, requests[i], (void *)8), EBADF);
    }
    int file = open("/dev/null", O_RDWR);
    CHECK_FAILS(ioctl(file, 0x2401, 0), ENOTTY);
    say("said\n");
    return 0;
}
