// A pipe that fills up: non-blocking writes stop short, blocking ones wait for the reader.
#include "check.h"

int main(void) {
    guard();
    int ends[2];
    CHECK(pipe2(ends, O_NONBLOCK) == 0);
    char block[1000];
    memset(block, 'b', sizeof block);
    size_t written = 0;
    ssize_t last;
    while ((last = write(ends[1], block, sizeof block)) > 0) {
        written += last;
    }
    CHECK(last == -1 && errno == EAGAIN && written > 4000);
    CHECK(fcntl(ends[1], F_SETFL, 0) == 0 && fcntl(ends[0], F_SETFL, 0) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        // Larger than the pipe: this write blocks in the middle.
        static char big[300000];
        CHECK(write(ends[1], big, sizeof big) == sizeof big);
        _exit(0);
    }
    close(ends[1]);
    size_t total = 0;
    ssize_t got;
    char buffer[10000];
    while ((got = read(ends[0], buffer, sizeof buffer)) > 0) {
        total += got;
    }
    expect_exit(child, 0);
    CHECK(got == 0 && total == written + 300000);
    say("%zu before it was full\n", written);
    return 0;
}
