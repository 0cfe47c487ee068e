// A program at a fixed address: text at 0x400000, heap right behind it.
// flags: -no-pie -fno-pie
#include "check.h"

extern char etext;
extern char end;

int main(void) {
    CHECK((uintptr_t)main >= 0x400000 && (uintptr_t)main < 0x500000);
    char *heap = sbrk(0);
    CHECK(heap >= &end && sbrk(4096) == heap);
    heap[0] = 1;
    say("text ends %p, data %p, heap %p\n", (void *)&etext, (void *)&end, (void *)heap);
    return 0;
}
