// Maps more small files than the list of files holds: each mapping shows the right content, also in a child.
// group: memory
// output: same
#include "check.h"
#include <sys/mman.h>

enum { FILES = 17000, KEPT = 64 };

int main(void) {
    static char *kept[KEPT];
    unsigned long sum = 0;
    guard();
    alarm(100); // it takes seconds, and more on a busy machine
    for (int index = 0; index < FILES; index++) {
        char name[32];
        int numbers[1200];
        snprintf(name, sizeof name, "file-%d", index);
        for (int at = 0; at < 1200; at++) {
            numbers[at] = index * 7919 + at;
        }
        int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        CHECK(file >= 0 && write(file, numbers, sizeof numbers) == sizeof numbers && close(file) == 0);
        file = open(name, O_RDONLY);
        int protection = index % 3 ? PROT_READ : PROT_READ | PROT_WRITE;
        char *shown = mmap(NULL, sizeof numbers, protection, MAP_PRIVATE, file, 0);
        CHECK(shown != MAP_FAILED && close(file) == 0 && memcmp(shown, numbers, sizeof numbers) == 0);
        CHECK(shown[sizeof numbers] == 0); // the rest of the page
        CHECK(unlink(name) == 0);
        if (protection & PROT_WRITE) {
            shown[0] ^= 1;
        }
        sum += *(unsigned *)shown;
        if (index % KEPT == index / KEPT) {
            kept[index % KEPT] = shown;
        } else {
            CHECK(munmap(shown, sizeof numbers) == 0);
        }
    }
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (int index = 0; index < KEPT; index++) {
            sum += kept[index] ? kept[index][9] : 0;
        }
        _exit(sum % 100);
    }
    int status = wait_for(child);
    say("%lu %d\n", sum, status);
    return 0;
}
