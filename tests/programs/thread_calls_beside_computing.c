// Threads make thousands of short calls that could wait, while another one computes and makes none: they must not wait a whole time slice after each call.
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

static void *write_lines(void *argument UNUSED) {
    int file = memfd_create("lines", 0);
    CHECK(file >= 0);
    for (int i = 0; i < LINES; i++) {
        CHECK(dprintf(file, "line %d\n", i) > 0);
    }
    return (void *)lseek(file, 0, SEEK_CUR);
}

int main(void) {
    guard();
    pthread_t computing, writing;
    void *bytes;
    CHECK(pthread_create(&computing, NULL, compute, NULL) == 0);
    say("%ld bytes alone\n", (long)write_lines(NULL));
    CHECK(pthread_create(&writing, NULL, write_lines, NULL) == 0);
    write_lines(NULL);
    CHECK(pthread_join(writing, &bytes) == 0);
    done = 1;
    CHECK(pthread_join(computing, NULL) == 0);
    say("%ld bytes beside another one, %lx\n", (long)bytes, result);
    return 0;
}
