// The stack grows downwards by itself, by deep recursion and by a MAP_GROWSDOWN mapping.
#include "check.h"
#include <sys/mman.h>

__attribute__((noinline)) static int deep(int depth) {
    volatile char frame[2000];
    frame[0] = (char)depth;
    frame[1999] = (char)depth;
    return depth == 0 ? 0 : deep(depth - 1) + (frame[0] == frame[1999]);
}

int main(void) {
    CHECK(deep(1000) == 1000);
    char *area = mmap(NULL, 4096 * 600, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED && munmap(area, 4096 * 600) == 0);
    // Growth needs free space below; the kernel keeps a gap of a megabyte from other mappings.
    char *stack = mmap(area + 4096 * 599, 4096, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(stack != MAP_FAILED);
    for (int page = 0; page < 20; page++) {
        stack[-4096 * page] = (char)page;
    }
    CHECK(stack[-4096 * 19] == 19);
    say("stack %p\n", (void *)stack);
    return 0;
}
