// A private mapping shows changes to its file where the program has not written: its size, its data, and faults beyond its end.
// output: same
#include "check.h"
#include <setjmp.h>
#include <sys/mman.h>

static sigjmp_buf back;

static void on_fault(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    siglongjmp(back, 1);
}

static int faults(volatile char *address) {
    if (sigsetjmp(back, 1)) {
        return 1;
    }
    (void)*address;
    return 0;
}

static void look(int file) {
    CHECK(ftruncate(file, 2 * 4096) == 0);
    CHECK(pwrite(file, "first", 5, 0) == 5 && pwrite(file, "second", 6, 4096) == 6);
    char *text = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(text != MAP_FAILED && strcmp(text, "first") == 0 && strcmp(text + 4096, "second") == 0);
    text[4096] = 'S'; // a private page now
    CHECK(pwrite(file, "FIRST", 5, 0) == 5 && pwrite(file, "......", 6, 4096) == 6);
    say("%s %s\n", text, text + 4096);
    CHECK(ftruncate(file, 4096) == 0);
    CHECK(!faults(text) && faults(text + 4096)); // the private page is gone with the file's
    CHECK(ftruncate(file, 2 * 4096) == 0 && !faults(text + 4096) && text[4096] == 0);
    CHECK(munmap(text, 2 * 4096) == 0 && close(file) == 0);
}

int main(void) {
    handle(SIGBUS, on_fault, 0);
    look(file_with("data", ""));
    look(memfd_create("data", 0));
    return 0;
}
