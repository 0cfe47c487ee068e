// mremap: shrinking, growing in place, moving, fixed targets, and leaving the old pages behind.
#include "check.h"
#include <sys/mman.h>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

static char *map(size_t pages) {
    char *area = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED);
    return area;
}

int main(void) {
    char *area = map(8);
    for (int page = 0; page < 8; page++) {
        area[page * 4096] = 'a' + page;
    }
    CHECK(mremap(area, 8 * 4096, 4 * 4096, 0) == area);
    CHECK(mremap(area, 4 * 4096, 6 * 4096, 0) == area && area[3 * 4096] == 'd' && area[4 * 4096] == 0);
    char *wall = mmap(area + 6 * 4096, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK(wall == area + 6 * 4096);
    CHECK(mremap(area, 6 * 4096, 10 * 4096, 0) == MAP_FAILED && errno == ENOMEM);
    char *moved = mremap(area, 6 * 4096, 100 * 4096, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED && moved != area && moved[0] == 'a' && moved[3 * 4096] == 'd' && moved[99 * 4096] == 0);
    CHECK_FAILS(access(area, F_OK), EFAULT);
    char *target = map(6);
    target[0] = '!';
    CHECK(mremap(moved, 6 * 4096, 6 * 4096, MREMAP_MAYMOVE | MREMAP_FIXED, target) == target && target[0] == 'a');
    char *left = mremap(target, 6 * 4096, 6 * 4096, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    CHECK(left != MAP_FAILED && left[0] == 'a' && target[0] == 0);
    CHECK(mremap(target + 1, 4096, 4096, 0) == MAP_FAILED && errno == EINVAL);
    say("%p %p %p %p\n", (void *)area, (void *)moved, (void *)target, (void *)left);
    return 0;
}
