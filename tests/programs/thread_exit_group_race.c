// Two threads end their process at the same time, while another process shares its memory and goes on.
// flags: -pthread
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

static volatile int *shared;

static void *leave(void *argument UNUSED) {
    usleep(200);
    ++*shared;
    _exit(0);
}

int main(void) {
    guard();
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK((void *)shared != MAP_FAILED);
    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            pthread_t threads[4];
            for (int i = 0; i < 4; i++) {
                CHECK(pthread_create(&threads[i], NULL, leave, NULL) == 0);
            }
            leave(NULL);
        }
        ++*shared;
        usleep(200);
        expect_exit(child, 0);
    }
    say("process %d\n", getpid());
    return 0;
}
