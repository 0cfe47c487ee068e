// Maps a file that was opened for reading past the cache.
#include "check.h"
#include <sys/mman.h>

int main(void) {
    int file = open("direct", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && write(file, "mapped", 7) == 7 && close(file) == 0);
    file = open("direct", O_RDONLY | O_DIRECT);
    if (file < 0) {
        say("no O_DIRECT here\n");
        return 0;
    }
    char *text = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
    CHECK(text != MAP_FAILED);
    say("%s\n", text);
    return 0;
}
