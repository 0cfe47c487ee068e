// What all test programs share: checks that name what failed, output without buffering, and a few helpers.
//
// Nothing here keeps state, so a program's behaviour stays what its own lines say.
#ifndef RETAKE_TEST_CHECK_H
#define RETAKE_TEST_CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

// Prints at once: buffered output would be printed twice after a fork and be lost at a fatal signal.
#define say(...) dprintf(STDOUT_FILENO, __VA_ARGS__)

static inline _Noreturn void check_failed(int line, const char *what, int error) {
    dprintf(STDERR_FILENO, "line %d: %s (errno %d: %s)\n", line, what, error, strerror(error));
    _exit(1);
}

// Ends the program with status 1 and a message unless the condition holds.
#define CHECK(condition)                                       \
    do {                                                       \
        if (!(condition)) {                                    \
            check_failed(__LINE__, #condition, errno);         \
        }                                                      \
    } while (0)

// Checks that a call returns -1 and sets errno to the given error.
#define CHECK_FAILS(call, error)                               \
    do {                                                       \
        errno = 0;                                             \
        if ((long)(call) != -1 || errno != (error)) {          \
            check_failed(__LINE__, #call " fails with " #error, errno); \
        }                                                      \
    } while (0)

// Ends a program that hangs; for programs that do not use SIGALRM themselves.
static inline void guard(void) {
    alarm(10);
}

// Waits for a child and returns its wait status.
static inline int wait_for(pid_t child) {
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

// Waits for a child and checks that it exited with `code`.
static inline void expect_exit(pid_t child, int code) {
    int status = wait_for(child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == code);
}

// Waits for a child and checks that `number` killed it.
static inline void expect_killed(pid_t child, int number) {
    int status = wait_for(child);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == number);
}

// Installs a three-argument handler with the given flags and an empty mask.
static inline void handle(int number, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};
    CHECK(sigemptyset(&action.sa_mask) == 0);
    CHECK(sigaction(number, &action, NULL) == 0);
}

// FNV-1a of some bytes: prints much data as one number.
static inline uint64_t digest(const void *data, size_t bytes) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t index = 0; index < bytes; index++) {
        hash = (hash ^ ((const unsigned char *)data)[index]) * 0x100000001b3u;
    }
    return hash;
}

// Creates a file with the given text in the working directory and leaves it open for reading and writing.
static inline int file_with(const char *name, const char *text) {
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(file >= 0);
    CHECK(write(file, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK(lseek(file, 0, SEEK_SET) == 0);
    return file;
}

#endif
