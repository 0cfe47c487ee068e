// Touching a mapped page behind the end of its file.
// signal: BUS
#include "check.h"
#include <sys/mman.h>

int main(void) {
    int file = file_with("data", "short");
    char *area = mmap(NULL, 8192, PROT_READ, MAP_SHARED, file, 0);
    CHECK(area != MAP_FAILED && area[0] == 's' && area[100] == 0);
    say("mapped at %p\n", (void *)area);
    return ((volatile char *)area)[4096];
}
