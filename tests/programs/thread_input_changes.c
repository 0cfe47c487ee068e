// Another thread changes the input of a call while the call waits.
// flags: -pthread
// output: same
#include "check.h"
#include <pthread.h>
#include <time.h>

static struct timespec request;
static int to_changer[2], to_main[2];

static void *changer(void *argument UNUSED) {
    char byte;
    for (int round = 0; round < 20; round++) {
        CHECK(read(to_changer[0], &byte, 1) == 1);
        usleep(1000);
        request.tv_nsec += 17;
        CHECK(write(to_main[1], &byte, 1) == 1);
    }
    return NULL;
}

int main(void) {
    guard();
    CHECK(pipe(to_changer) == 0 && pipe(to_main) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, changer, NULL) == 0);
    for (int round = 0; round < 20; round++) {
        char byte = 'x';
        request = (struct timespec){0, 5000000};
        CHECK(write(to_changer[1], &byte, 1) == 1);
        CHECK(nanosleep(&request, NULL) == 0);
        CHECK(read(to_main[0], &byte, 1) == 1);
        CHECK(request.tv_nsec == 5000017);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    say("done\n");
    return 0;
}
