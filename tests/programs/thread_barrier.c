// Phases separated by a barrier: no thread enters one before all have left the last.
// flags: -pthread
// group: threads
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, PHASES = 20 };

static pthread_barrier_t barrier;
static int arrived[PHASES];
static int serial[PHASES];

static void *work(void *argument) {
    for (int phase = 0; phase < PHASES; phase++) {
        __atomic_add_fetch(&arrived[phase], 1, __ATOMIC_SEQ_CST);
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
            serial[phase] = (int)(long)argument + 1;
        }
        CHECK(__atomic_load_n(&arrived[phase], __ATOMIC_SEQ_CST) == THREADS);
        CHECK(pthread_barrier_wait(&barrier) <= 0);
    }
    return NULL;
}

int main(void) {
    guard();
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    pthread_t threads[THREADS];
    for (long index = 0; index < THREADS; index++) {
        CHECK(pthread_create(&threads[index], NULL, work, (void *)index) == 0);
    }
    for (int index = 0; index < THREADS; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    for (int phase = 0; phase < PHASES; phase++) {
        CHECK(serial[phase] > 0);
        say("%d ", serial[phase]);
    }
    say("\n");
    return 0;
}
