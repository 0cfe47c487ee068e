// Processes that share memory make threads: all their threads contend for a lock in that memory, and race beside it.
// flags: -pthread -O0
// group: sharing
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

enum { CHILDREN = 2, THREADS = 2, ROUNDS = 2000 };

struct board {
    pthread_mutex_t lock;
    uint64_t count;
    volatile uint64_t raced;
};

static struct board *board;

static void *work(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(pthread_mutex_lock(&board->lock) == 0);
        board->count++;
        CHECK(pthread_mutex_unlock(&board->lock) == 0);
        board->raced = board->raced * 31 + (uintptr_t)argument;
    }
    return NULL;
}

static void run_threads(uintptr_t number) {
    pthread_t threads[THREADS];
    for (uintptr_t index = 0; index < THREADS; index++) {
        CHECK(pthread_create(&threads[index], NULL, work, (void *)(number + index)) == 0);
    }
    for (int index = 0; index < THREADS; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
}

int main(void) {
    guard();
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(board != MAP_FAILED);
    pthread_mutexattr_t attributes;
    CHECK(pthread_mutexattr_init(&attributes) == 0);
    CHECK(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_mutex_init(&board->lock, &attributes) == 0);
    pid_t children[CHILDREN];
    for (uintptr_t index = 0; index < CHILDREN; index++) {
        children[index] = fork();
        CHECK(children[index] >= 0);
        if (children[index] == 0) {
            run_threads(10 * (index + 1));
            _exit(0);
        }
    }
    run_threads(1);
    for (int index = 0; index < CHILDREN; index++) {
        expect_exit(children[index], 0);
    }
    CHECK(board->count == (CHILDREN + 1) * THREADS * ROUNDS);
    say("raced %016lx\n", (unsigned long)board->raced);
    return 0;
}
