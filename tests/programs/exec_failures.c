// A failed exec leaves the program as it was: memory, handlers, descriptors. The next exec works.
// output: same
#include "check.h"

static volatile sig_atomic_t handled;

static void on_signal(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    handled++;
}

int main(int count, char **arguments) {
    if (count > 1) {
        say("at last: %s\n", arguments[1]);
        return 0;
    }
    char *none[] = {"x", NULL};
    int file = open("kept", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(file >= 0 && write(file, "not a program", 13) == 13);
    handle(SIGUSR1, on_signal, 0);
    CHECK_FAILS(execv("/nonexistent", none), ENOENT);
    CHECK_FAILS(execv("kept", none), EACCES);
    CHECK_FAILS(execv("/etc", none), EACCES);
    CHECK_FAILS(execv("/etc/passwd/x", none), ENOTDIR);
    CHECK_FAILS(execv((char *)8, none), EFAULT);
    CHECK_FAILS(execve("/bin/true", (char **)8, NULL), EFAULT);
    CHECK(chmod("kept", 0700) == 0);
    CHECK(close(file) == 0);
    CHECK_FAILS(execv("./kept", none), ENOEXEC);
    int script = open("script", O_WRONLY | O_CREAT, 0700);
    CHECK(script >= 0 && write(script, "#!/nonexistent\n", 15) == 15 && close(script) == 0);
    CHECK_FAILS(execv("./script", none), ENOENT);
    // A truncated file that begins like a program.
    int cut = open("cut", O_WRONLY | O_CREAT, 0700);
    CHECK(cut >= 0 && write(cut, "\177ELF\2\1\1", 7) == 7 && close(cut) == 0);
    CHECK_FAILS(execv("./cut", none), ENOEXEC);
    CHECK(raise(SIGUSR1) == 0 && handled == 1);
    say("still here\n");
    execl("/proc/self/exe", arguments[0], "second life", NULL);
    return 1;
}
