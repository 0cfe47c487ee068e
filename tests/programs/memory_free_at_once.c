// MADV_FREE acts as MADV_DONTNEED: the kernel would take the pages at any time, which replay could not repeat (docs/LIMITS.md).
// modes: record replay slow
// group: memory
#include "check.h"
#include <sys/mman.h>

enum { PAGES = 64, PAGE_BYTES = 4096 };

int main(void) {
    volatile char *area = mmap(NULL, PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED);
    memset((void *)area, 'x', PAGES * PAGE_BYTES);
    CHECK(madvise((void *)area, PAGES * PAGE_BYTES / 2, MADV_FREE) == 0);
    for (int page = 0; page < PAGES; page++) {
        CHECK(area[page * PAGE_BYTES] == (page < PAGES / 2 ? 0 : 'x'));
    }
    return 0;
}
