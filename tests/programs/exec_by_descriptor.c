// fexecve and execveat: programs by descriptor, by directory, and from a memory file.
#include "check.h"
#include <sys/mman.h>
#include <sys/sendfile.h>

static void run(int directory, const char *path, int flags, const char *word) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char *arguments[] = {"self", (char *)word, NULL};
        char *environment[] = {"ONLY=this", NULL};
        syscall(SYS_execveat, directory, path, arguments, environment, flags);
        _exit(errno);
    }
    expect_exit(child, 3);
}

int main(int count, char **arguments) {
    if (count > 1) {
        CHECK(getenv("ONLY") && strcmp(getenv("ONLY"), "this") == 0);
        say("%s in %d\n", arguments[1], getpid());
        return 3;
    }
    int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    CHECK(self >= 0);
    run(self, "", AT_EMPTY_PATH, "by descriptor");
    run(-1, "/proc/self/exe", 0, "by path");
    struct stat status;
    CHECK(fstat(self, &status) == 0);
    int memory = memfd_create("program", 0);
    CHECK(memory >= 0 && sendfile(memory, self, NULL, status.st_size) == status.st_size);
    run(memory, "", AT_EMPTY_PATH, "from memory");
    int file = open("copy", O_WRONLY | O_CREAT, 0700);
    off_t start = 0;
    CHECK(file >= 0 && sendfile(file, self, &start, status.st_size) == status.st_size && close(file) == 0);
    int here = open(".", O_RDONLY | O_DIRECTORY);
    run(here, "copy", AT_SYMLINK_NOFOLLOW, "by directory");
    char *again[] = {"self", "itself", NULL};
    char *environment[] = {"ONLY=this", NULL};
    int path = open("copy", O_PATH);
    pid_t child = fork();
    if (child == 0) {
        fexecve(path, again, environment);
        _exit(1);
    }
    expect_exit(child, 3);
    return 0;
}
