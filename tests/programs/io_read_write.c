// Plain and positioned reads and writes, and what they do to the file offset.
// output: same
#include "check.h"

int main(void) {
    char buffer[32] = {0};
    int file = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0);
    CHECK(write(file, "hello world", 11) == 11);
    CHECK(lseek(file, 0, SEEK_CUR) == 11);
    CHECK(pwrite(file, "HELLO", 5, 0) == 5);
    CHECK(lseek(file, 0, SEEK_CUR) == 11);
    CHECK(pread(file, buffer, sizeof buffer, 6) == 5);
    CHECK(memcmp(buffer, "world", 5) == 0);
    CHECK(lseek(file, 0, SEEK_SET) == 0);
    memset(buffer, 'x', sizeof buffer);
    CHECK(read(file, buffer, sizeof buffer) == 11);
    // Bytes behind the end of a short read stay unchanged.
    CHECK(buffer[11] == 'x' && buffer[31] == 'x');
    CHECK(read(file, buffer, sizeof buffer) == 0);
    say("%.11s\n", buffer);
    CHECK_FAILS(pread(file, buffer, 1, -1), EINVAL);
    CHECK(close(file) == 0);
    CHECK(unlink("data") == 0);
    return 0;
}
