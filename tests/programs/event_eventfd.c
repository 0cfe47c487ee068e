// eventfd: counters, semaphores, overflow, and a child that waits for its parent.
#include "check.h"
#include <sys/eventfd.h>

int main(void) {
    guard();
    int counter = eventfd(5, EFD_NONBLOCK | EFD_CLOEXEC);
    uint64_t value = 3;
    CHECK(counter >= 0 && write(counter, &value, 8) == 8);
    CHECK(read(counter, &value, 8) == 8 && value == 8);
    CHECK_FAILS(read(counter, &value, 8), EAGAIN);
    CHECK_FAILS(read(counter, &value, 4), EINVAL);
    value = UINT64_MAX - 1;
    CHECK(write(counter, &value, 8) == 8);
    value = 1;
    CHECK_FAILS(write(counter, &value, 8), EAGAIN);
    int semaphore = eventfd(2, EFD_SEMAPHORE);
    CHECK(read(semaphore, &value, 8) == 8 && value == 1);
    int gate = eventfd(0, 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(eventfd_read(gate, &value) == 0);
        _exit((int)value);
    }
    usleep(10000);
    CHECK(eventfd_write(gate, 33) == 0);
    expect_exit(child, 33);
    say("child %d\n", child);
    return 0;
}
