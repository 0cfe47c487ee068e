// Programs execute the next one when their threads have just begun, or have not begun yet.
// flags: -pthread
// group: threads
// output: same
// calls: varies
#include "check.h"
#include <pthread.h>

enum { PROGRAMS = 40, THREADS = 3 };

static void *sleep_on(void *argument UNUSED) {
    for (;;) {
        pause();
    }
    return NULL;
}

int main(int count, char **arguments) {
    guard();
    int left = count > 1 ? atoi(arguments[1]) : PROGRAMS;
    if (left == 0) {
        say("all %d\n", PROGRAMS);
        return 0;
    }
    char number[20];
    snprintf(number, sizeof number, "%d", left - 1);
    for (int index = 0; index < THREADS; index++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, sleep_on, NULL) == 0);
    }
    execl("/proc/self/exe", "self", number, NULL);
    return 1;
}
