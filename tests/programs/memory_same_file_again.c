// Maps a changing file thousands of times: the list of files holds fewer states of it.
// group: memory
// output: same
#include "check.h"
#include <sys/mman.h>

int main(void) {
    unsigned long sum = 0;
    guard();
    int file = memfd_create("again", 0);
    CHECK(file >= 0);
    for (unsigned round = 0; round < 17000; round++) {
        CHECK(ftruncate(file, 4096 + 4096 * (round % 3)) == 0);
        CHECK(pwrite(file, &round, sizeof round, round % 4000) == sizeof round);
        int kind = round % 2 ? MAP_SHARED : MAP_PRIVATE;
        unsigned char *shown = mmap(NULL, 4096, PROT_READ | PROT_WRITE, kind, file, 0);
        CHECK(shown != MAP_FAILED && memcmp(shown + round % 4000, &round, sizeof round) == 0);
        shown[4090] += round;
        sum = sum * 31 + shown[4090] + shown[round % 4000 / 2];
        CHECK(munmap(shown, 4096) == 0);
    }
    say("%lu\n", sum);
    return 0;
}
