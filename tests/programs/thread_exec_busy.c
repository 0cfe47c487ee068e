// A thread executes a program while others work, in memory that other processes share and wait for.
// flags: -pthread
// group: threads
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

static volatile unsigned long *shared;

static _Noreturn void *work(void *argument UNUSED) {
    for (;;) {
        ++*shared;
        getppid();
    }
}

static void *run(void *argument UNUSED) {
    usleep(300);
    execl("/bin/true", "true", NULL);
    _exit(1);
}

int main(void) {
    guard();
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    for (int round = 0; round < 12; round++) {
        int status;
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            pthread_t threads[4];
            for (int index = 0; index < 4; index++) {
                CHECK(pthread_create(&threads[index], NULL, index == 1 ? run : work, NULL) == 0);
            }
            work(NULL);
        }
        while (waitpid(pid, &status, WNOHANG) == 0) {
            ++*shared;
        }
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    say("%lu\n", *shared);
    return 0;
}
