// madvise: DONTNEED zeroes at once, FREE may do so at any time, and DONTFORK and WIPEONFORK change what children see.
#include "check.h"
#include <sys/mman.h>

int main(void) {
    char *area = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED);
    memset(area, 'x', 8 * 4096);
    CHECK(madvise(area + 4096, 4096, MADV_DONTNEED) == 0);
    CHECK(area[4095] == 'x' && area[4096] == 0 && area[8191] == 0 && area[8192] == 'x');
    CHECK(madvise(area, 2 * 4096, MADV_FREE) == 0);
    // The kernel decides whether the page is gone already. The program prints it, so replay must agree.
    say("after MADV_FREE %02x\n", area[10]);
    CHECK(madvise(area, 8 * 4096, MADV_WILLNEED) == 0 && madvise(area, 8 * 4096, MADV_SEQUENTIAL) == 0);
    CHECK(madvise(area + 3 * 4096, 4096, MADV_WIPEONFORK) == 0 && madvise(area + 4 * 4096, 4096, MADV_DONTFORK) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(area[3 * 4096] == 0 && area[5 * 4096] == 'x');
        CHECK_FAILS(access(area + 4 * 4096, F_OK), EFAULT);
        _exit(0);
    }
    expect_exit(child, 0);
    CHECK(area[3 * 4096] == 'x' && area[4 * 4096] == 'x');
    int file = file_with("data", "file");
    char *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(mapped != MAP_FAILED);
    mapped[0] = 'F';
    // A page of a private file mapping has the file's content again.
    CHECK(madvise(mapped, 4096, MADV_DONTNEED) == 0 && memcmp(mapped, "file", 4) == 0);
    CHECK_FAILS(madvise(area + 1, 4096, MADV_DONTNEED), EINVAL);
    return 0;
}
