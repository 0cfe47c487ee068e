// /proc/self/maps shows the program, its heap and its stack, and mappings that appear and disappear.
#include "check.h"
#include <sys/mman.h>

static char text[1 << 18];

static size_t load(const char *path) {
    int file = open(path, O_RDONLY);
    CHECK(file >= 0);
    size_t length = 0;
    ssize_t got;
    while ((got = read(file, text + length, sizeof text - 1 - length)) > 0) {
        length += got;
    }
    // The file is open for reading only.
    CHECK((fcntl(file, F_GETFL) & O_ACCMODE) == O_RDONLY);
    CHECK_FAILS(write(file, "x", 1), EBADF);
    CHECK(got == 0 && close(file) == 0);
    text[length] = 0;
    return length;
}

// Tells whether a line begins with the range that starts at `address`.
static int has_start(const void *address) {
    char start[32];
    snprintf(start, sizeof start, "%08lx-", (unsigned long)address);
    char *found = strstr(text, start);
    return found && (found == text || found[-1] == '\n');
}

// Each text has a name and is one line: the pieces it has while it is recorded must not show.
static void check_texts(void) {
    unsigned long before = 0;
    for (char *line = text; *line; line = strchr(line, '\n') + 1) {
        unsigned long start, end;
        char permissions[5], name[256] = "";
        CHECK(sscanf(line, "%lx-%lx %4s %*s %*s %*s %255s", &start, &end, permissions, name) >= 3);
        if (strcmp(permissions, "r-xp") == 0) {
            CHECK(name[0] != 0 && start != before);
            before = end;
        }
    }
}

int main(void) {
    CHECK(malloc(100));
    size_t length = load("/proc/self/maps");
    CHECK(strstr(text, "[stack]") && strstr(text, "[heap]") && strstr(text, "[vdso]"));
    say("%s", text);
    check_texts();
    char *page = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && mprotect(page, 4096, PROT_NONE) == 0 && mprotect(page + 8192, 4096, PROT_READ) == 0);
    load("/proc/self/maps");
    CHECK(has_start(page + 4096) && has_start(page + 8192));
    CHECK(munmap(page, 3 * 4096) == 0);
    load("/proc/self/maps");
    CHECK(!has_start(page + 4096));
    say("%zu bytes at first\n", length);
    return 0;
}
