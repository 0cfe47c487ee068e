// A thread makes thousands of short calls that could wait while another one computes and makes none: it must not wait a whole slice after each of them.
// flags: -pthread
// group: threads
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

enum { LINES = 5000 };

static volatile int done;
static volatile unsigned long result;

static void *compute(void *argument UNUSED) {
    unsigned long value = 1;
    while (!done) {
        for (int i = 0; i < 1000; i++) {
            value = value * 6364136223846793005UL + 1;
        }
        result = value;
    }
    return NULL;
}

int main(void) {
    guard();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, compute, NULL) == 0);
    int file = memfd_create("lines", 0);
    CHECK(file >= 0);
    for (int i = 0; i < LINES; i++) {
        CHECK(dprintf(file, "line %d\n", i) > 0);
    }
    done = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    say("%ld bytes, %lx\n", (long)lseek(file, 0, SEEK_CUR), result);
    return 0;
}
