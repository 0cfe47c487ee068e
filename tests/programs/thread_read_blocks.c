// Another process that shares a non-blocking descriptor makes it blocking. A thread that reads then waits for the thread that writes, which has
// waited for its turn all the time.
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <time.h>

enum { ROUNDS = 5, POLLED = 100, WAITED_FOR = 5 };

static int data[2], to_child[2], from_child[2];

// The turns are so short that both threads are kept on one core, where a woken thread waits for the reading one.
static void *write_all(void *unused) {
    (void)unused;
    struct timespec pause = {.tv_nsec = 20000};
    for (int i = 0; i < ROUNDS * (POLLED + WAITED_FOR); i++)
        CHECK(nanosleep(&pause, NULL) == 0 && write(data[1], "b", 1) == 1);
    return NULL;
}

static void set_waiting(int waits) {
    int flags = fcntl(data[0], F_GETFL);
    CHECK(flags >= 0 && fcntl(data[0], F_SETFL, waits ? flags & ~O_NONBLOCK : flags | O_NONBLOCK) == 0);
}

static void change_when_told(void) {
    for (int round = 0; round < ROUNDS; round++) {
        char byte;
        CHECK(read(to_child[0], &byte, 1) == 1);
        set_waiting(1);
        CHECK(write(from_child[1], &byte, 1) == 1);
    }
    _exit(0);
}

int main(void) {
    guard();
    CHECK(pipe(data) == 0 && pipe(to_child) == 0 && pipe(from_child) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        change_when_told();
    pthread_t writer;
    CHECK(pthread_create(&writer, NULL, write_all, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        char byte = 0;
        set_waiting(0);
        for (int i = 0; i < POLLED; i++)
            while (read(data[0], &byte, 1) != 1)
                CHECK(errno == EAGAIN);
        CHECK(write(to_child[1], &byte, 1) == 1 && read(from_child[0], &byte, 1) == 1);
        for (int i = 0; i < WAITED_FOR; i++)
            CHECK(read(data[0], &byte, 1) == 1 && byte == 'b');
    }
    CHECK(pthread_join(writer, NULL) == 0);
    expect_exit(child, 0);
    say("read\n");
    return 0;
}
