// Scattered and gathered I/O: short transfers end in the middle of a vector.
// output: same
#include "check.h"
#include <sys/uio.h>

int main(void) {
    int file = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0);
    struct iovec out[3] = {{"abc", 3}, {NULL, 0}, {"defgh", 5}};
    CHECK(writev(file, out, 3) == 8);
    CHECK(pwritev(file, out, 3, 8) == 8);
    CHECK(pwritev2(file, out, 1, -1, 0) == 3);

    char first[4] = "....";
    char second[6] = "......";
    struct iovec in[2] = {{first, 4}, {second, 6}};
    CHECK(lseek(file, 0, SEEK_SET) == 0);
    CHECK(readv(file, in, 2) == 10);
    say("%.4s %.6s\n", first, second);
    memset(first, '.', 4);
    memset(second, '.', 6);
    // Six bytes are left: the second vector is filled in part.
    CHECK(preadv(file, in, 2, 10) == 6);
    CHECK(memcmp(second + 2, "....", 4) == 0);
    say("%.4s %.6s\n", first, second);
    CHECK(preadv2(file, in, 2, 14, 0) == 2);
    say("%.4s %.6s\n", first, second);
    CHECK_FAILS(readv(file, in, -1), EINVAL);
    CHECK(readv(file, in, 0) == 0);
    return 0;
}
