// A descriptor that was opened as a regular file leads to a pipe, since a process that shares the table of descriptors has put it there. A thread that
// writes waits for the reading thread, which has waited for its turn all the time.
#include "check.h"
#include <pthread.h>
#include <sched.h>

enum { BYTES = 300000 };

static int ends[2], file;
static char stack[65536] __attribute__((aligned(16)));

static int put_pipe(void *unused) {
    (void)unused;
    return dup2(ends[1], file) != file;
}

static void *read_all(void *unused) {
    (void)unused;
    static char bytes[BYTES];
    for (size_t have = 0; have < BYTES;) {
        ssize_t count = read(ends[0], bytes + have, BYTES - have);
        CHECK(count > 0);
        have += (size_t)count;
    }
    CHECK(bytes[0] == 'w' && bytes[BYTES - 1] == 'w');
    return NULL;
}

int main(void) {
    guard();
    static char bytes[BYTES];
    memset(bytes, 'w', sizeof bytes);
    char name[] = "/tmp/retake-write-XXXXXX";
    int made = mkstemp(name);
    CHECK(made >= 0);
    file = open(name, O_WRONLY);
    CHECK(file >= 0 && unlink(name) == 0 && pipe(ends) == 0);
    pid_t child = clone(put_pipe, stack + sizeof stack, CLONE_FILES | SIGCHLD, NULL);
    CHECK(child > 0);
    expect_exit(child, 0);
    for (int round = 0; round < 3; round++) {
        pthread_t reader;
        CHECK(pthread_create(&reader, NULL, read_all, NULL) == 0);
        for (volatile long i = 0; i < 5000000; i++) {
        }
        CHECK(write(file, bytes, BYTES) == BYTES);
        CHECK(pthread_join(reader, NULL) == 0);
    }
    say("written\n");
    return 0;
}
