// statx: masks, birth times, and bytes of the structure that the kernel leaves zero.
#include "check.h"

int main(void) {
    int file = file_with("data", "123");
    struct statx status;
    memset(&status, 0xaa, sizeof status);
    CHECK(statx(AT_FDCWD, "data", 0, STATX_BASIC_STATS | STATX_BTIME, &status) == 0);
    CHECK(status.stx_size == 3 && (status.stx_mask & STATX_SIZE));
    say("inode %llu changed %lld.%09u born %lld digest %016lx\n", (unsigned long long)status.stx_ino,
        (long long)status.stx_ctime.tv_sec, status.stx_ctime.tv_nsec, (long long)status.stx_btime.tv_sec,
        (unsigned long)digest(&status, sizeof status));
    CHECK(statx(file, "", AT_EMPTY_PATH, STATX_SIZE, &status) == 0 && status.stx_size == 3);
    CHECK_FAILS(statx(AT_FDCWD, "missing", 0, STATX_ALL, &status), ENOENT);
    CHECK_FAILS(statx(AT_FDCWD, "data", 0x100000, STATX_ALL, &status), EINVAL);
    return 0;
}
