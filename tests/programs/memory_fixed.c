// MAP_FIXED replaces a mapping by a file or by empty pages; it may replace the middle of a mapping.
#include "check.h"
#include <sys/mman.h>

int main(void) {
    char *area = mmap(NULL, 5 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED);
    memset(area, 'a', 5 * 4096);
    int file = file_with("data", "file content");
    CHECK(ftruncate(file, 8192) == 0);
    char *over = mmap(area + 4096, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0);
    CHECK(over == area + 4096 && memcmp(over, "file content", 12) == 0 && over[5000] == 0);
    CHECK(area[4095] == 'a' && area[3 * 4096] == 'a');
    over[0] = 'F';
    char byte;
    CHECK(pread(file, &byte, 1, 0) == 1 && byte == 'f');
    CHECK(mmap(area, 5 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == area);
    CHECK(mprotect(area, 5 * 4096, PROT_READ) == 0);
    for (int at = 0; at < 5 * 4096; at++) {
        CHECK(area[at] == 0);
    }
    CHECK(mmap((char *)0x10000001, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED);
    char *hint = (char *)0x200000000000;
    say("%p, hint gave %p\n", (void *)area, mmap(hint, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    return 0;
}
