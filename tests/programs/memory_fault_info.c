// Bad accesses of each kind: unmapped, protected, not executable; the handler sees address, code and error bits.
#include "check.h"
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

static sigjmp_buf back;
static volatile siginfo_t seen;
static volatile long error_bits;

static void on_fault(int number UNUSED, siginfo_t *info, void *context) {
    seen = *info;
    error_bits = ((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR];
    siglongjmp(back, 1);
}

static void touch(volatile char *address, int kind) {
    if (sigsetjmp(back, 1) == 0) {
        if (kind == 'r') {
            (void)*address;
        } else if (kind == 'w') {
            *address = 1;
        } else {
            ((void (*)(void))(uintptr_t)address)();
        }
        CHECK(!"the access must fault");
    }
    say("%c at %p: code %d error %lx\n", kind, seen.si_addr, seen.si_code, error_bits);
}

int main(void) {
    handle(SIGSEGV, on_fault, 0);
    touch((char *)8, 'r');
    CHECK(seen.si_addr == (void *)8 && seen.si_code == SEGV_MAPERR && (error_bits & 2) == 0);
    touch((char *)24, 'w');
    CHECK(seen.si_addr == (void *)24 && (error_bits & 2) == 2);
    char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    touch(page + 100, 'w');
    CHECK(seen.si_addr == page + 100 && seen.si_code == SEGV_ACCERR);
    touch(page, 'x');
    CHECK(seen.si_addr == page && seen.si_code == SEGV_ACCERR);
    // An address that is not canonical: a general protection fault, without an address.
    touch((char *)0x8000000000000000, 'r');
    CHECK(seen.si_addr == NULL && seen.si_code == SI_KERNEL);
    return 0;
}
