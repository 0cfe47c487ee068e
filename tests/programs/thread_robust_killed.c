// A process is killed while it holds a robust lock: the next owner learns of it, also at replay.
// output: same
// flags: -pthread
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

int main(void) {
    pthread_mutex_t *lock = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t how;
    int ends[2];
    CHECK(lock != MAP_FAILED && pipe(ends) == 0 && pthread_mutexattr_init(&how) == 0);
    CHECK(pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST) == 0);
    CHECK(pthread_mutex_init(lock, &how) == 0);
    for (int computes = 0; computes < 2; computes++) {
        pid_t child = fork();
        if (child == 0) {
            CHECK(pthread_mutex_lock(lock) == 0 && write(ends[1], "x", 1) == 1);
            while (computes) {
                __asm__ volatile("");
            }
            pause();
        }
        char byte;
        CHECK(child > 0 && read(ends[0], &byte, 1) == 1 && kill(child, SIGKILL) == 0);
        expect_killed(child, SIGKILL);
        CHECK(pthread_mutex_lock(lock) == EOWNERDEAD && pthread_mutex_consistent(lock) == 0);
        CHECK(pthread_mutex_unlock(lock) == 0);
    }
    say("told twice\n");
    return 0;
}
