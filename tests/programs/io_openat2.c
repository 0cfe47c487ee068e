// openat and openat2: paths relative to a directory, and the resolve flags.
#include "check.h"
#include <linux/openat2.h>

static long open_how(int directory, const char *path, uint64_t flags, uint64_t resolve) {
    struct open_how how = {.flags = flags, .resolve = resolve};
    return syscall(SYS_openat2, directory, path, &how, sizeof how);
}

int main(void) {
    CHECK(mkdir("folder", 0700) == 0);
    int directory = open("folder", O_RDONLY | O_DIRECTORY);
    CHECK(directory >= 0);
    int made = openat(directory, "inner", O_RDWR | O_CREAT, 0600);
    CHECK(made >= 0 && write(made, "x", 1) == 1);
    CHECK(symlinkat("../folder/inner", directory, "escape") == 0);

    CHECK(open_how(directory, "inner", O_RDONLY, RESOLVE_BENEATH) >= 0);
    CHECK_FAILS(open_how(directory, "escape", O_RDONLY, RESOLVE_BENEATH), EXDEV);
    CHECK_FAILS(open_how(directory, "escape", O_RDONLY, RESOLVE_NO_SYMLINKS), ELOOP);
    CHECK(open_how(directory, "escape", O_RDONLY, 0) >= 0);
    CHECK_FAILS(open_how(directory, "inner", ~0ull, 0), EINVAL);
    CHECK_FAILS(openat(-7, "inner", O_RDONLY), EBADF);

    struct { struct open_how how; uint64_t later; } big = {.how = {.flags = O_RDONLY}, .later = 1};
    // The kernel refuses a longer structure only if its unknown part is not zero.
    CHECK_FAILS(syscall(SYS_openat2, directory, "inner", &big, sizeof big), E2BIG);
    big.later = 0;
    CHECK(syscall(SYS_openat2, directory, "inner", &big, sizeof big) >= 0);
    say("directory is descriptor %d\n", directory);
    return 0;
}
