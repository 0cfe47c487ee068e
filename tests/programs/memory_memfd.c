// Memory files: memfd_create, seals, mapping them, and giving them to a child.
#include "check.h"
#include <sys/mman.h>

int main(void) {
    int file = memfd_create("scratch", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    CHECK(file >= 0 && write(file, "content", 7) == 7 && ftruncate(file, 4096) == 0);
    char *area = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(area != MAP_FAILED && strcmp(area, "content") == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        strcpy(area, "changed by the child");
        _exit(0);
    }
    expect_exit(child, 0);
    CHECK(strcmp(area, "changed by the child") == 0);
    CHECK_FAILS(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE), EBUSY);
    CHECK(munmap(area, 4096) == 0);
    CHECK(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK) == 0);
    CHECK(fcntl(file, F_GET_SEALS) == (F_SEAL_WRITE | F_SEAL_SHRINK));
    CHECK_FAILS(pwrite(file, "x", 1, 0), EPERM);
    CHECK_FAILS(ftruncate(file, 0), EPERM);
    char path[64];
    char target[64] = {0};
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    CHECK(readlink(path, target, sizeof target - 1) > 0 && strcmp(target, "/memfd:scratch (deleted)") == 0);
    char *view = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
    CHECK(view != MAP_FAILED && strcmp(view, "changed by the child") == 0);
    say("%s %p\n", target, (void *)view);
    return 0;
}
