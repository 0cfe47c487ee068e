// SIGBUS in a handler: behind the end of a file, then repaired by making the file longer.
#include "check.h"
#include <sys/mman.h>

static int file;
static volatile int faults;

static void on_bus(int number UNUSED, siginfo_t *info, void *context UNUSED) {
    CHECK(info->si_code == BUS_ADRERR);
    faults++;
    CHECK(ftruncate(file, 8192) == 0);
}

int main(void) {
    file = file_with("data", "short");
    char *area = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(area != MAP_FAILED);
    handle(SIGBUS, on_bus, 0);
    CHECK(((volatile char *)area)[5000] == 0 && faults == 1);
    area[5000] = 'x';
    char byte;
    CHECK(pread(file, &byte, 1, 5000) == 1 && byte == 'x');
    CHECK(ftruncate(file, 0) == 0);
    CHECK(((volatile char *)area)[0] == 0 && faults == 2);
    say("area %p\n", (void *)area);
    return 0;
}
