// A thread executes a file that the kernel accepts at first and then rejects, while other threads run.
// flags: -pthread
// group: threads
#include "check.h"
#include <pthread.h>

enum { TRIES = 40 };

static int over;

static void *run_on(void *count) {
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        CHECK(getppid() > 0);
        ++*(long *)count;
    }
    return NULL;
}

static void *try_to_execute(void *argument UNUSED) {
    for (int number = 0; number < TRIES; number++) {
        CHECK(execl("./broken", "broken", NULL) == -1 && errno == ENOEXEC);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    return NULL;
}

int main(void) {
    guard();
    int file = open("broken", O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    CHECK(file >= 0 && write(file, "\177ELF and no more", 16) == 16 && close(file) == 0);
    pthread_t threads[3];
    long counts[2] = {0, 0};
    CHECK(pthread_create(&threads[0], NULL, run_on, &counts[0]) == 0);
    CHECK(pthread_create(&threads[1], NULL, run_on, &counts[1]) == 0);
    CHECK(pthread_create(&threads[2], NULL, try_to_execute, NULL) == 0);
    for (int index = 0; index < 3; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    CHECK(unlink("broken") == 0);
    say("%ld %ld\n", counts[0], counts[1]);
    return 0;
}
