// Random bytes: getrandom with its flags, /dev/urandom, /dev/random, and the bytes the kernel gives at exec.
#include "check.h"
#include <sys/auxv.h>
#include <sys/random.h>

static void show(const char *from, const unsigned char *bytes, size_t count) {
    say("%s %016lx\n", from, (unsigned long)digest(bytes, count));
}

int main(void) {
    unsigned char bytes[300] = {0};
    CHECK(getrandom(bytes, sizeof bytes, 0) > 0);
    show("getrandom", bytes, sizeof bytes);
    CHECK(getrandom(bytes, 16, GRND_NONBLOCK) == 16);
    show("nonblocking", bytes, 16);
    CHECK(getrandom(bytes, 16, GRND_RANDOM) > 0);
    show("random", bytes, 16);
    CHECK(syscall(SYS_getrandom, bytes, 7, 0) == 7);
    show("raw", bytes, 7);
    CHECK(getentropy(bytes, 256) == 0);
    show("entropy", bytes, 256);
    CHECK_FAILS(getrandom(bytes, 1, 0xff00), EINVAL);
    int file = open("/dev/urandom", O_RDONLY);
    CHECK(file >= 0 && read(file, bytes, 100) == 100);
    show("urandom", bytes, 100);
    file = open("/dev/random", O_RDONLY);
    CHECK(file >= 0 && read(file, bytes, 10) > 0);
    const unsigned char *given = (const unsigned char *)getauxval(AT_RANDOM);
    CHECK(given);
    show("AT_RANDOM", given, 16);
    return 0;
}
