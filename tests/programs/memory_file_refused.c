// A shared mapping of a file opened for reading stays shared and cannot be made writable; a file that is not open for reading cannot be mapped.
// output: same
#include "check.h"
#include <sys/mman.h>

enum { BYTES = 3 * 4096 };

static void protection_refused(int prepared) {
    int reader = open("file", O_RDONLY);
    CHECK(reader >= 0);
    char *shown = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, reader, 0);
    CHECK(shown != MAP_FAILED);
    CHECK_FAILS(mprotect(shown, BYTES, PROT_READ | PROT_WRITE), EACCES);
    CHECK_FAILS(mprotect(shown + 4096, 4096, PROT_WRITE), EACCES);
    // The mapping still shows writes to the file.
    CHECK(pwrite(prepared, "fresh", 5, 4096) == 5);
    CHECK(memcmp(shown + 4096, "fresh", 5) == 0);
    CHECK(munmap(shown, BYTES) == 0 && close(reader) == 0);
}

static void mapping_refused(int flags, int error) {
    int file = open("other", flags, 0644);
    CHECK(file >= 0);
    CHECK_FAILS(mmap(NULL, BYTES, PROT_WRITE, MAP_SHARED, file, 0), error);
    CHECK_FAILS(mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, file, 0), error);
    CHECK_FAILS(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0), error);
    close(file);
}

int main(void) {
    guard();
    int file = file_with("file", "first");
    CHECK(ftruncate(file, BYTES) == 0);
    protection_refused(file);
    int other = file_with("other", "other");
    CHECK(ftruncate(other, BYTES) == 0 && close(other) == 0);
    mapping_refused(O_WRONLY, EACCES);
    mapping_refused(O_PATH, EBADF);
    say("refused\n");
    return 0;
}
