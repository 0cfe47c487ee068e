// Locking memory copies pages of private mappings without changing them: the memory hash must not depend on it.
// output: same
#include "check.h"
#include <sys/mman.h>

static char data[3 * 4096] = "initialised";

int main(void) {
    int file = file_with("text", "what is in the file\n");
    char *text = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(text != MAP_FAILED && close(file) == 0);
    int locked = mlock(text, 4096) == 0 && mlock(data, sizeof data) == 0 && munlock(data, sizeof data) == 0;
    CHECK(locked || errno == ENOMEM || errno == EPERM);
    locked = mlockall(MCL_CURRENT) == 0 && munlockall() == 0;
    CHECK(locked || errno == ENOMEM || errno == EPERM);
    CHECK(memcmp(text, "what", 4) == 0 && data[0] == 'i');
    say("%s", text);
    return 0;
}
