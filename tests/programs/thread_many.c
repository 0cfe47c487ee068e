// Three hundred short threads, joined and detached, with their stacks reused.
// flags: -pthread
// group: threads
#include "check.h"
#include <pthread.h>

static int done;

static void *work(void *argument UNUSED) {
    char *block = malloc(100);
    CHECK(block);
    memset(block, 1, 100);
    free(block);
    __atomic_add_fetch(&done, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

int main(void) {
    guard();
    for (int batch = 0; batch < 15; batch++) {
        pthread_t threads[20];
        for (int index = 0; index < 20; index++) {
            CHECK(pthread_create(&threads[index], NULL, work, NULL) == 0);
        }
        for (int index = 0; index < 20; index++) {
            CHECK(index % 2 == 0 ? pthread_join(threads[index], NULL) == 0 : pthread_detach(threads[index]) == 0);
        }
        while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) < 20 * (batch + 1)) {
            usleep(100);
        }
        say("%lx ", (unsigned long)threads[0]);
    }
    say("\n");
    return 0;
}
