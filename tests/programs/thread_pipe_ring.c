// A token goes round a ring of threads through pipes, a hundred times.
// flags: -pthread
// group: threads
#include "check.h"
#include <pthread.h>

enum { THREADS = 5, ROUNDS = 100 };

static int pipes[THREADS][2];
static uint64_t trail;

static void *work(void *argument) {
    long self = (long)argument;
    for (int round = 0; round < ROUNDS; round++) {
        int token;
        CHECK(read(pipes[self][0], &token, sizeof token) == sizeof token);
        CHECK(token % THREADS == self);
        // Only the holder of the token writes here.
        trail = trail * 31 + syscall(SYS_gettid);
        token++;
        CHECK(write(pipes[(self + 1) % THREADS][1], &token, sizeof token) == sizeof token);
    }
    return NULL;
}

int main(void) {
    guard();
    pthread_t threads[THREADS];
    for (int index = 0; index < THREADS; index++) {
        CHECK(pipe(pipes[index]) == 0);
    }
    for (long index = 0; index < THREADS; index++) {
        CHECK(pthread_create(&threads[index], NULL, work, (void *)index) == 0);
    }
    int token = 0;
    CHECK(write(pipes[0][1], &token, sizeof token) == sizeof token);
    for (int index = 0; index < THREADS; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    CHECK(read(pipes[0][0], &token, sizeof token) == sizeof token && token == THREADS * ROUNDS);
    say("trail %016lx\n", (unsigned long)trail);
    return 0;
}
