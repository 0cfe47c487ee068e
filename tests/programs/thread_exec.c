// A thread other than the first executes another program: all others vanish, and the process keeps its number.
// flags: -pthread
// group: threads
#include "check.h"
#include <pthread.h>

static char number[20];

static _Noreturn void *sleep_on(void *argument UNUSED) {
    for (;;) {
        pause();
    }
}

static void *run(void *argument UNUSED) {
    usleep(1000);
    execl("/proc/self/exe", "self", number, NULL);
    _exit(1);
}

int main(int count, char **arguments) {
    guard();
    if (count > 1) {
        CHECK(atoi(arguments[1]) == getpid() && syscall(SYS_gettid) == getpid());
        say("alone as %d\n", getpid());
        return 0;
    }
    snprintf(number, sizeof number, "%d", getpid());
    pthread_t threads[4];
    for (int index = 0; index < 4; index++) {
        CHECK(pthread_create(&threads[index], NULL, index == 3 ? run : sleep_on, NULL) == 0);
    }
    sleep_on(NULL);
}
