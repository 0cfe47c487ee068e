// Anonymous mappings: zero pages, partial unmapping, guard pages by PROT_NONE, huge reservations.
#include "check.h"
#include <sys/mman.h>

int main(void) {
    size_t bytes = 64 * 4096;
    char *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED);
    for (size_t at = 0; at < bytes; at += 512) {
        CHECK(area[at] == 0);
        area[at] = (char)at;
    }
    CHECK(munmap(area + 8 * 4096, 4096) == 0);
    char *again = mmap(area + 8 * 4096, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(again == area + 8 * 4096 && again[0] == 0);
    CHECK(mmap(again, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED && errno == EEXIST);
    char *populated = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    CHECK(populated != MAP_FAILED && populated[bytes - 1] == 0);
    // Programs often reserve a terabyte and use one page of it.
    char *huge = mmap(NULL, 1ul << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(huge != MAP_FAILED && mprotect(huge + (1ul << 39), 4096, PROT_READ | PROT_WRITE) == 0);
    huge[1ul << 39] = 5;
    CHECK(munmap(huge, 1ul << 40) == 0);
    char *low = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    CHECK(low != MAP_FAILED && (uintptr_t)low < 1ul << 32);
    CHECK_FAILS(munmap(area + 1, 4096), EINVAL);
    say("%p %p %p %p\n", (void *)area, (void *)populated, (void *)huge, (void *)low);
    return 0;
}
