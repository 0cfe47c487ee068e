// Reading directories: readdir, seeking, and the raw calls old and new.
#include "check.h"
#include <dirent.h>

struct old_entry { unsigned long inode; unsigned long offset; unsigned short length; char name[]; };

static int count_raw(long call) {
    int directory = open("folder", O_RDONLY | O_DIRECTORY);
    CHECK(directory >= 0);
    char buffer[512];
    int entries = 0;
    long bytes;
    while ((bytes = syscall(call, directory, buffer, sizeof buffer)) > 0) {
        for (long at = 0; at < bytes; entries++) {
            at += ((struct old_entry *)(buffer + at))->length;
        }
        say("%ld bytes, digest %016lx\n", bytes, (unsigned long)digest(buffer, bytes));
    }
    CHECK(bytes == 0);
    CHECK(lseek(directory, 0, SEEK_SET) == 0);
    // The buffer is too small for a single entry.
    CHECK_FAILS(syscall(call, directory, buffer, 3), EINVAL);
    return entries;
}

int main(void) {
    CHECK(mkdir("folder", 0755) == 0);
    for (int index = 0; index < 40; index++) {
        char path[40];
        snprintf(path, sizeof path, "folder/entry-%d", index);
        CHECK(close(open(path, O_CREAT | O_WRONLY, 0600)) == 0);
    }
    DIR *stream = opendir("folder");
    CHECK(stream);
    int seen = 0;
    for (struct dirent *entry; (entry = readdir(stream)); seen++) {
        say("%s %lu\n", entry->d_name, (unsigned long)entry->d_ino);
    }
    CHECK(seen == 42);
    rewinddir(stream);
    CHECK(readdir(stream) && closedir(stream) == 0);
    CHECK(count_raw(SYS_getdents64) == 42);
    CHECK(count_raw(SYS_getdents) == 42);
    return 0;
}
