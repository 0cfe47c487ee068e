// With musl, another C library, linked statically: memory, files, pipes, processes, signals, programs and a thread that waits.
// compiler: musl-gcc
// flags: -static -pthread
// stdout: ^child 3, caught 1, thread 42, 11 bytes back$
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

static volatile int caught;

static void note(int number) { caught += number == SIGUSR1; }

static void *compute(void *argument) {
    int *pipe_end = argument;
    char byte = 0;
    CHECK(read(*pipe_end, &byte, 1) == 1);
    return (void *)(long)byte;
}

int main(void) {
    guard();
    char *memory = malloc(1 << 20);
    CHECK(memory != NULL);
    memset(memory, 7, 1 << 20);
    free(memory);
    signal(SIGUSR1, note);
    CHECK(kill(getpid(), SIGUSR1) == 0);

    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "exit 3", (char *)NULL);
        _exit(9);
    }
    int status = wait_for(child);

    int ends[2];
    CHECK(pipe(ends) == 0);
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, compute, &ends[0]) == 0);
    CHECK(write(ends[1], "*", 1) == 1);
    CHECK(pthread_join(thread, &result) == 0);

    int file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    char text[32];
    CHECK(file >= 0 && write(file, "some text\n", 11) == 11);
    long back = pread(file, text, sizeof text, 0);
    CHECK(memcmp(text, "some text\n", 11) == 0);
    say("child %d, caught %d, thread %ld, %ld bytes back\n", WEXITSTATUS(status), caught, (long)result, back);
    return 0;
}
