// A file mapped shared: writes show in the file, in a second mapping and in a child.
#include "check.h"
#include <sys/mman.h>

int main(void) {
    int file = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && ftruncate(file, 8192) == 0);
    char *first = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    char *second = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 4096);
    CHECK(first != MAP_FAILED && second != MAP_FAILED);
    strcpy(first + 4096, "through memory");
    CHECK(strcmp(second, "through memory") == 0);
    char text[20] = {0};
    CHECK(pread(file, text, 14, 4096) == 14 && strcmp(text, "through memory") == 0);
    CHECK(pwrite(file, "through the file", 17, 4096) == 17 && strcmp(second, "through the file") == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int again = open("data", O_RDWR);
        char *own = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0);
        CHECK(own != MAP_FAILED);
        strcpy(own, "from the child");
        _exit(0);
    }
    expect_exit(child, 0);
    CHECK(strcmp(first, "from the child") == 0);
    int reading = open("data", O_RDONLY);
    CHECK(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, reading, 0) == MAP_FAILED && errno == EACCES);
    say("%s %p %p\n", first, (void *)first, (void *)second);
    return 0;
}
