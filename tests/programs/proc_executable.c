// /proc/self/exe, cmdline and environ show the program as it was started.
// args: first second
#include "check.h"

extern char **environ;

int main(int count, char **arguments) {
    CHECK(count == 3);
    char path[4096] = {0};
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    CHECK(length > 0);
    CHECK(strstr(path, "proc_executable"));
    struct stat by_link;
    struct stat by_path;
    CHECK(stat("/proc/self/exe", &by_link) == 0 && stat(path, &by_path) == 0 && by_link.st_ino == by_path.st_ino);
    int file = open("/proc/self/exe", O_RDONLY);
    char start[4];
    CHECK(file >= 0 && read(file, start, 4) == 4 && memcmp(start, "\177ELF", 4) == 0);
    char text[4096];
    file = open("/proc/self/cmdline", O_RDONLY);
    length = read(file, text, sizeof text);
    CHECK(length > 0 && memcmp(text + length - 13, "first\0second\0", 13) == 0);
    CHECK(strcmp(text, arguments[0]) == 0);
    file = open("/proc/self/environ", O_RDONLY);
    length = read(file, text, sizeof text);
    CHECK(length >= 0 && (length == 0 || strncmp(text, environ[0], 10) == 0));
    say("%s %s\n", path, arguments[0]);
    return 0;
}
