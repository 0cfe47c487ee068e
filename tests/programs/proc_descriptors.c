// /proc/self/fd lists only the descriptors that the program opened itself.
#include "check.h"
#include <dirent.h>

static int count(void) {
    DIR *directory = opendir("/proc/self/fd");
    CHECK(directory);
    int found = 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == dirfd(directory)) {
            continue;
        }
        say("%s ", entry->d_name);
        found++;
    }
    say("\n");
    CHECK(closedir(directory) == 0);
    return found;
}

int main(void) {
    CHECK(syscall(SYS_close_range, 3, ~0u, 0) == 0);
    CHECK(count() == 3);
    int file = file_with("data", "x");
    CHECK(file == 3 && count() == 4);
    char target[4096] = {0};
    CHECK(readlink("/proc/self/fd/3", target, sizeof target - 1) > 5);
    CHECK(strcmp(target + strlen(target) - 5, "/data") == 0);
    int again = open("/proc/self/fd/3", O_RDONLY);
    char byte;
    CHECK(again == 4 && read(again, &byte, 1) == 1 && byte == 'x');
    int ends[2];
    CHECK(pipe(ends) == 0 && readlink("/proc/self/fd/5", target, sizeof target) > 0);
    CHECK(strncmp(target, "pipe:[", 6) == 0);
    say("%s\n", target);
    return 0;
}
