// The futex call itself: waiting, waking a number of waiters, moving waiters to another word.
// flags: -pthread
// group: threads
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>
#include <time.h>

static int first_word;
static int second_word;
static int waiting;
static int woken;

static long futex(int *word, int operation, int value, unsigned long fourth, int *other) {
    return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, fourth, other, 0);
}

static void *work(void *argument UNUSED) {
    __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    CHECK(futex(&first_word, FUTEX_WAIT, 0, 0, NULL) == 0);
    __atomic_add_fetch(&woken, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

int main(void) {
    guard();
    CHECK_FAILS(futex(&first_word, FUTEX_WAIT, 1, 0, NULL), EAGAIN);
    struct timespec wait_time = {0, 1000000};
    CHECK_FAILS(futex(&first_word, FUTEX_WAIT, 0, (unsigned long)&wait_time, NULL), ETIMEDOUT);
    CHECK(futex(&first_word, FUTEX_WAKE, 5, 0, NULL) == 0);
    pthread_t threads[4];
    for (int index = 0; index < 4; index++) {
        CHECK(pthread_create(&threads[index], NULL, work, NULL) == 0);
    }
    // Two threads are woken and two are moved, however late they begin to wait.
    long done = 0;
    while (done < 2) {
        done += futex(&first_word, FUTEX_WAKE, (int)(2 - done), 0, NULL);
        usleep(100);
    }
    long moved = 0;
    while (moved < 2) {
        long now = futex(&first_word, FUTEX_REQUEUE, 0, 2, &second_word);
        CHECK(now >= 0);
        moved += now;
        usleep(100);
    }
    CHECK(waiting == 4 && __atomic_load_n(&woken, __ATOMIC_SEQ_CST) <= 2);
    CHECK(futex(&first_word, FUTEX_WAKE, 10, 0, NULL) == 0);
    CHECK(futex(&second_word, FUTEX_WAKE, 10, 0, NULL) == 2);
    for (int index = 0; index < 4; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    CHECK(woken == 4);
    say("process %d\n", getpid());
    return 0;
}
