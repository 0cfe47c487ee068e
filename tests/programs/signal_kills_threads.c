// A signal kills a process whose other threads wait in reads: the kernel may or may not have written their buffers already.
// flags: -pthread
// signal: TERM
// group: signals
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, PIECE_BYTES = 1 << 16, ROUNDS = 200, LAST_WORDS = 50, BALLAST_BYTES = 8 << 20 };

static int pipes[THREADS][2];
// Hashing all memory takes some time until it reaches the buffers.
static struct { char ballast[BALLAST_BYTES], buffers[THREADS][PIECE_BYTES]; } memory;

static void *take(void *argument) {
    uintptr_t index = (uintptr_t)argument;
    for (;;) {
        CHECK(read(pipes[index][0], memory.buffers[index], PIECE_BYTES) > 0);
    }
    return NULL;
}

static void feed(void) {
    static char bytes[PIECE_BYTES];
    for (int index = 0; index < THREADS; index++) {
        CHECK(close(pipes[index][0]) == 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        memset(bytes, round, sizeof bytes);
        for (int index = 0; index < THREADS; index++) {
            CHECK(write(pipes[index][1], bytes, sizeof bytes) > 0);
        }
        CHECK(round != LAST_WORDS || kill(getppid(), SIGTERM) == 0);
    }
}

int main(void) {
    guard();
    memset(memory.ballast, 1, sizeof memory.ballast);
    for (int index = 0; index < THREADS; index++) {
        CHECK(pipe(pipes[index]) == 0);
    }
    pid_t feeder = fork();
    CHECK(feeder >= 0);
    if (feeder == 0) {
        feed();
        _exit(0);
    }
    for (uintptr_t index = 0; index < THREADS; index++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, take, (void *)index) == 0);
    }
    for (;;) {
        pause();
    }
}
