// A SIGSEGV handler that opens the page it faulted on, as garbage collectors do.
#include "check.h"
#include <sys/mman.h>

static char *area;
static volatile int faults;

static void on_fault(int number, siginfo_t *info, void *context UNUSED) {
    CHECK(number == SIGSEGV && info->si_code == SEGV_ACCERR);
    char *address = info->si_addr;
    CHECK(address >= area && address < area + 16 * 4096);
    faults++;
    char *page = (char *)((uintptr_t)address & ~4095ul);
    CHECK(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
}

int main(void) {
    area = mmap(NULL, 16 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED);
    handle(SIGSEGV, on_fault, 0);
    for (int page = 0; page < 16; page++) {
        volatile char *place = area + page * 4096 + page;
        CHECK(*place == 0);
        *place = (char)page;
        CHECK(faults == page + 1);
    }
    CHECK(mprotect(area, 16 * 4096, PROT_READ) == 0);
    volatile char *place = area;
    *place = 9;
    CHECK(faults == 17 && area[0] == 9);
    // In the kernel no handler runs: its access just fails.
    CHECK(mprotect(area, 4096, PROT_NONE) == 0);
    CHECK_FAILS(access(area, F_OK), EFAULT);
    CHECK(faults == 17);
    say("%d faults at %p\n", faults, (void *)area);
    return 0;
}
