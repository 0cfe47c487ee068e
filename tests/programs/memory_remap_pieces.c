// Moves and resizes what the kernel has merged into one mapping: parts of one file that were mapped one by one.
// output: same
#include "check.h"
#include <sys/mman.h>

#define PAGE 4096

static char *mapped(int file, int pages) {
    char *whole = mmap(NULL, (size_t)pages * PAGE, PROT_READ, MAP_PRIVATE, file, 0);
    CHECK(whole != MAP_FAILED);
    CHECK(mmap(whole, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) == whole);
    return whole;
}

int main(void) {
    int file = open("file", O_RDWR | O_CREAT, 0600);
    static char bytes[64 * PAGE];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (char)(i / 100);
    }
    CHECK(file >= 0 && write(file, bytes, sizeof bytes) == (ssize_t)sizeof bytes && close(file) == 0);
    file = open("file", O_RDONLY);
    char *moved = mremap(mapped(file, 40), 40 * PAGE, 60 * PAGE, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED && memcmp(moved, bytes, 60 * PAGE) == 0);
    char *shorter = mapped(file, 40);
    CHECK(mremap(shorter, 40 * PAGE, 20 * PAGE, 0) == shorter && memcmp(shorter, bytes, 20 * PAGE) == 0);
    char *room = mmap(NULL, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *fixed = mremap(mapped(file, 40), 40 * PAGE, 40 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room);
    CHECK(fixed == room && memcmp(fixed, bytes, 40 * PAGE) == 0);
    CHECK(unlink("file") == 0);
    say("moved\n");
    return 0;
}
