// The program reads its own code around a system call: bytes that only look like a call must be as in the file.
#include "check.h"
#include <sys/mman.h>

extern const unsigned char checked_start[];
extern const unsigned char checked_end[];
extern long checked_call(void);

// The ordinary shape of a call, then bytes that look like one but are data.
__asm__(".text\n"
        ".globl checked_start, checked_end, checked_call\n"
        "checked_start:\n"
        "checked_call: mov $39, %eax\n"
        "syscall\n"
        "ret\n"
        ".byte 0xb8, 1, 2, 3, 4, 0x0f, 0x05\n"
        "checked_end:\n");

int main(void) {
    static const unsigned char expected[] = {0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3, 0xb8, 1, 2, 3, 4, 0x0f, 0x05};
    CHECK(checked_end - checked_start == sizeof expected);
    CHECK(checked_call() == getpid() && checked_call() == getpid());
    CHECK(checked_start[7] == expected[7]);
    CHECK(memcmp(checked_start + 8, expected + 8, 7) == 0);
    int file = open("/proc/self/exe", O_RDONLY);
    struct stat status;
    CHECK(file >= 0 && fstat(file, &status) == 0);
    unsigned char *image = mmap(NULL, status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    CHECK(image != MAP_FAILED && memmem(image, status.st_size, expected, sizeof expected));
    say("code at %p\n", (const void *)checked_start);
    return 0;
}
