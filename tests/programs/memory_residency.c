// mincore, msync, mlock and mlockall.
#include "check.h"
#include <sys/mman.h>

int main(void) {
    char *area = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED);
    area[4096] = 1;
    unsigned char resident[5] = {9, 9, 9, 9, 9};
    CHECK(mincore(area, 4 * 4096, resident) == 0 && (resident[1] & 1) && resident[4] == 9);
    say("resident %d %d %d %d\n", resident[0], resident[1], resident[2], resident[3]);
    CHECK(mlock(area, 8192) == 0 && munlock(area, 8192) == 0);
    CHECK(syscall(SYS_mlock2, area, 4096, 1) == 0);
    CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
    char *later = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(later != MAP_FAILED && munlockall() == 0);
    int file = file_with("data", "before");
    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(shared != MAP_FAILED);
    memcpy(shared, "behind", 6);
    CHECK(msync(shared, 4096, MS_SYNC) == 0);
    char text[7] = {0};
    CHECK(pread(file, text, 6, 0) == 6 && strcmp(text, "behind") == 0);
    CHECK_FAILS(mincore(area + 1, 4096, resident), EINVAL);
    CHECK(munmap(area, 4 * 4096) == 0);
    CHECK_FAILS(msync(area, 4096, MS_SYNC), ENOMEM);
    return 0;
}
