// poll and ppoll: readiness, time-outs, hang-ups, bad descriptors, and the time left.
#include "check.h"
#include <poll.h>
#include <time.h>

int main(void) {
    guard();
    int ends[2];
    CHECK(pipe(ends) == 0);
    struct pollfd set[3] = {{ends[0], POLLIN, 0x77}, {ends[1], POLLOUT, 0}, {-1, POLLIN, 0x77}};
    CHECK(poll(set, 3, -1) == 1);
    CHECK(set[0].revents == 0 && set[1].revents == POLLOUT && set[2].revents == 0);
    CHECK(poll(set, 1, 5) == 0);
    CHECK(write(ends[1], "x", 1) == 1);
    CHECK(poll(set, 1, 1000) == 1 && set[0].revents == POLLIN);
    set[2].fd = 500;
    CHECK(poll(set, 3, 0) == 3 && set[2].revents == POLLNVAL);
    CHECK(close(ends[1]) == 0);
    CHECK(poll(set, 1, 0) == 1 && set[0].revents == (POLLIN | POLLHUP));
    CHECK(poll(NULL, 0, 3) == 0);

    struct timespec wait = {5, 0};
    // The raw call writes back what was left of the time; the C library hides that.
    CHECK(syscall(SYS_ppoll, set, 1, &wait, NULL, 8) == 1);
    say("left %ld.%09ld\n", (long)wait.tv_sec, wait.tv_nsec);
    wait = (struct timespec){0, 2000000};
    CHECK(ppoll(set + 1, 0, &wait, NULL) == 0);
    CHECK_FAILS(poll(set, 1u << 30, 0), EINVAL);
    return 0;
}
