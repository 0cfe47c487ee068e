// Maps more files shared than a list of a few dozen holds, and files that reuse inodes: each mapping shows the right content.
// group: memory
// output: same
#include "check.h"
#include <sys/mman.h>

enum { FILES = 300, ROUNDS = 100, BYTES = 5000 };

static unsigned long sum;

static void write_file(const char *name, unsigned seed) {
    unsigned char bytes[BYTES];
    for (unsigned at = 0; at < BYTES; at++) {
        bytes[at] = seed * 31 + at;
    }
    int file = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    CHECK(file >= 0 && write(file, bytes, BYTES) == BYTES && close(file) == 0);
}

static unsigned char *map_file(const char *name, int protection) {
    int file = open(name, O_RDWR);
    unsigned char *shown = mmap(NULL, BYTES, protection, MAP_SHARED, file, 0);
    CHECK(shown != MAP_FAILED && close(file) == 0);
    for (unsigned at = 0; at < BYTES; at += 7) {
        sum = sum * 31 + shown[at];
    }
    return shown;
}

int main(void) {
    static unsigned char *shown[FILES];
    guard();
    for (unsigned index = 0; index < FILES; index++) {
        char name[32];
        snprintf(name, sizeof name, "file-%u", index);
        write_file(name, index);
        shown[index] = map_file(name, index % 2 ? PROT_READ : PROT_READ | PROT_WRITE);
    }
    // Most file systems reuse the same inode each time; the next file is another one.
    for (unsigned round = 0; round < ROUNDS; round++) {
        write_file("again", round);
        unsigned char *place = map_file("again", PROT_READ | PROT_WRITE);
        place[round] = 255;
        CHECK(unlink("again") == 0);
        sum += place[round];
        CHECK(munmap(place, BYTES) == 0);
    }
    int log = open("log", O_WRONLY | O_CREAT | O_EXCL, 0600);
    for (unsigned index = 0; index < FILES; index++) {
        char name[32];
        snprintf(name, sizeof name, "file-%u", index);
        int file = open(name, O_WRONLY);
        CHECK(file >= 0 && pwrite(file, &index, sizeof index, index) == sizeof index && close(file) == 0);
        CHECK(memcmp(shown[index] + index, &index, sizeof index) == 0 && write(log, name, 4) == 4);
        sum = sum * 31 + shown[index][index] + shown[index][BYTES - 1];
    }
    say("%lu\n", sum);
    return 0;
}
