// Holes: lseek finds data and holes, and reads of a hole are zeros.
// output: same
#include "check.h"

int main(void) {
    int file = open("sparse", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0);
    CHECK(pwrite(file, "end", 3, 1 << 20) == 3);
    off_t data = lseek(file, 0, SEEK_DATA);
    off_t hole = lseek(file, 0, SEEK_HOLE);
    // A file system without holes calls everything data.
    CHECK(data == 0 || data == 1 << 20);
    CHECK(hole == 0 || hole == (1 << 20) + 3);
    CHECK_FAILS(lseek(file, 2 << 20, SEEK_DATA), ENXIO);
    char text[4] = "xxx";
    CHECK(pread(file, text, 3, 1000) == 3);
    CHECK(memcmp(text, "\0\0\0", 3) == 0);
    CHECK(lseek(file, -3, SEEK_END) == 1 << 20);
    CHECK(read(file, text, 3) == 3 && memcmp(text, "end", 3) == 0);
    CHECK_FAILS(lseek(file, -1, SEEK_SET), EINVAL);
    say("data %ld hole %ld\n", (long)data, (long)hole);
    return 0;
}
