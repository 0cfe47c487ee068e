// Eight megabytes of random bytes in one buffer: longer than any ring or message of the runtime.
#include "check.h"

enum { BYTES = 8 << 20 };

static size_t fill(int file, unsigned char *buffer) {
    size_t done = 0;
    while (done < BYTES) {
        ssize_t got = read(file, buffer + done, BYTES - done);
        CHECK(got > 0);
        done += got;
    }
    return done;
}

int main(void) {
    unsigned char *first = malloc(BYTES);
    unsigned char *second = malloc(BYTES);
    CHECK(first && second);
    int random = open("/dev/urandom", O_RDONLY);
    CHECK(random >= 0 && fill(random, first) == BYTES);
    int file = open("copy", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(write(file, first, BYTES) == BYTES);
    CHECK(lseek(file, 0, SEEK_SET) == 0);
    CHECK(read(file, second, BYTES) == BYTES);
    CHECK(memcmp(first, second, BYTES) == 0);
    say("%016lx\n", (unsigned long)digest(second, BYTES));
    CHECK(unlink("copy") == 0);
    return 0;
}
