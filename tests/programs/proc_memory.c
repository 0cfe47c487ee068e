// Writes and reads the process's own memory through /proc/self/mem and process_vm_readv, including read-only pages, and through other names of the file.
#include "check.h"
#include <sys/mman.h>
#include <sys/uio.h>

static char target[32] = "before";

int main(void) {
    int memory = open("/proc/self/mem", O_RDWR);
    CHECK(memory >= 0);
    char text[16] = {0};
    CHECK(pread(memory, text, 6, (off_t)(uintptr_t)target) == 6 && strcmp(text, "before") == 0);
    CHECK(pwrite(memory, "after!", 6, (off_t)(uintptr_t)target) == 6);
    // The compiler must not assume that the array kept its value.
    __asm__ volatile("" ::: "memory");
    CHECK(strcmp(target, "after!") == 0);
    char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && pwrite(memory, "forced", 6, (off_t)(uintptr_t)page) == 6);
    __asm__ volatile("" ::: "memory");
    CHECK(memcmp(page, "forced", 6) == 0);
    CHECK_FAILS(pread(memory, text, 1, 4096), EIO);
    struct iovec local = {text, 6};
    struct iovec remote = {target, 6};
    CHECK(process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 6 && strcmp(text, "after!") == 0);
    memcpy(text, "vm!!!!", 6);
    CHECK(process_vm_writev(getpid(), &local, 1, &remote, 1, 0) == 6);
    __asm__ volatile("" ::: "memory");
    CHECK(strcmp(target, "vm!!!!") == 0);
    // The same by process number, and at the file's current position.
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/task/%d/mem", getpid(), getpid());
    int numbered = open(name, O_WRONLY);
    struct iovec parts[2] = {{"in ", 3}, {"parts", 6}};
    CHECK(numbered >= 0 && lseek(numbered, (off_t)(uintptr_t)target, SEEK_SET) == (off_t)(uintptr_t)target);
    CHECK(writev(numbered, parts, 2) == 9 && write(numbered, "behind", 7) == 7);
    __asm__ volatile("" ::: "memory");
    CHECK(strcmp(target, "in parts") == 0 && strcmp(target + 9, "behind") == 0);
    say("%s at %p\n", target, (void *)target);
    return 0;
}
