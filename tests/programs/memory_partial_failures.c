// Calls that fail after a part of their work: advice and protection across a hole, advice up to a locked page.
// output: same
#include "check.h"
#include <setjmp.h>
#include <sys/mman.h>

#define PAGES 16
static sigjmp_buf back;

static void caught(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    siglongjmp(back, 1);
}

static int is_writable(volatile char *page) {
    if (sigsetjmp(back, 1)) {
        return 0;
    }
    *page = 1;
    return 1;
}

static char *fresh(int flags) {
    char *pages = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
    CHECK(pages != MAP_FAILED);
    memset(pages, 5, PAGES * 4096);
    return pages;
}

static void tell(const char *what, const char *pages, int hole) {
    say("%s:", what);
    for (int i = 0; i < PAGES; i++) {
        if (i != hole) {
            say(" %d", pages[i * 4096]);
        }
    }
    say("\n");
}

int main(void) {
    handle(SIGSEGV, caught, 0);
    char *pages = fresh(MAP_PRIVATE);
    CHECK(munmap(pages + 8 * 4096, 4096) == 0);
    CHECK_FAILS(madvise(pages, PAGES * 4096, MADV_DONTNEED), ENOMEM);
    tell("advice", pages, 8);
    CHECK_FAILS(mprotect(pages + 4 * 4096, 8 * 4096, PROT_READ), ENOMEM);
    for (int i = 0; i < PAGES; i++) {
        say("%d", is_writable(pages + i * 4096));
    }
    say("\n");
    pages = fresh(MAP_PRIVATE);
    CHECK(mlock(pages + 4 * 4096, 4096) == 0);
    CHECK_FAILS(madvise(pages, PAGES * 4096, MADV_DONTNEED), EINVAL);
    tell("locked", pages, -1);
    CHECK_FAILS(madvise(pages + 4 * 4096, 4096, MADV_DONTNEED), EINVAL);
    CHECK_FAILS(madvise(pages + 1, 4096, MADV_DONTNEED), EINVAL);
    tell("at once", pages, -1);
    pages = fresh(MAP_SHARED);
    CHECK(munmap(pages + 4 * 4096, 4096) == 0);
    CHECK_FAILS(madvise(pages, PAGES * 4096, MADV_REMOVE), ENOMEM);
    tell("removed", pages, 4);
    return 0;
}
