// Changing the size of files: truncate, ftruncate, fallocate and punched holes.
#include "check.h"
#include <linux/falloc.h>

static off_t size_of(int file) {
    struct stat status;
    CHECK(fstat(file, &status) == 0);
    return status.st_size;
}

int main(void) {
    int file = file_with("data", "0123456789");
    CHECK(ftruncate(file, 4) == 0 && size_of(file) == 4);
    CHECK(truncate("data", 100) == 0 && size_of(file) == 100);
    char text[10] = {0};
    CHECK(pread(file, text, 10, 0) == 10);
    CHECK(memcmp(text, "0123\0\0\0\0\0\0", 10) == 0);
    CHECK_FAILS(ftruncate(file, -1), EINVAL);
    CHECK(posix_fallocate(file, 0, 8192) == 0 && size_of(file) == 8192);
    if (fallocate(file, FALLOC_FL_KEEP_SIZE, 0, 1 << 16) == 0) {
        CHECK(size_of(file) == 8192);
        CHECK(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0);
        CHECK(pread(file, text, 4, 0) == 4 && text[0] == 0);
    }
    CHECK(fsync(file) == 0 && fdatasync(file) == 0);
    CHECK(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
    struct stat status;
    CHECK(fstat(file, &status) == 0);
    say("%ld blocks\n", (long)status.st_blocks);
    return 0;
}
