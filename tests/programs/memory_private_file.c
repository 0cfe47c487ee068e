// Private file mappings: contents, copy on write, offsets, the zero-filled tail, and access bits.
#include "check.h"
#include <sys/mman.h>

int main(void) {
    int file = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    char block[4096];
    for (int page = 0; page < 3; page++) {
        memset(block, 'a' + page, sizeof block);
        CHECK(write(file, block, page == 2 ? 100 : 4096) > 0);
    }
    char *all = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(all != MAP_FAILED && all[0] == 'a' && all[4096] == 'b' && all[8192 + 99] == 'c' && all[8192 + 100] == 0);
    all[0] = 'X';
    // Written pages no longer follow the file.
    CHECK(pwrite(file, "YZ", 2, 0) == 2 && all[0] == 'X' && all[1] == 'a');
    char *second = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 4096);
    CHECK(second != MAP_FAILED && second[0] == 'b' && close(file) == 0 && second[4095] == 'b');
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, open("data", O_RDONLY), 100) == MAP_FAILED && errno == EINVAL);
    int only_writing = open("data", O_WRONLY);
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, only_writing, 0) == MAP_FAILED && errno == EACCES);
    int program = open("/proc/self/exe", O_RDONLY);
    unsigned char *image = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, program, 0);
    CHECK(image != MAP_FAILED && memcmp(image, "\177ELF", 4) == 0);
    say("%016lx at %p\n", (unsigned long)digest(image, 4096), (void *)image);
    return 0;
}
