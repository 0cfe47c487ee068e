// epoll: level and edge triggering, one shot, changes, and data that is given back.
#include "check.h"
#include <sys/epoll.h>

int main(void) {
    guard();
    int poller = epoll_create1(EPOLL_CLOEXEC);
    int ends[2];
    CHECK(poller >= 0 && pipe(ends) == 0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0x1122334455667788};
    CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, ends[0], &event) == 0);
    CHECK_FAILS(epoll_ctl(poller, EPOLL_CTL_ADD, ends[0], &event), EEXIST);
    struct epoll_event ready[4];
    memset(ready, 0xee, sizeof ready);
    CHECK(epoll_wait(poller, ready, 4, 2) == 0);
    CHECK(write(ends[1], "x", 1) == 1);
    CHECK(epoll_wait(poller, ready, 4, -1) == 1);
    CHECK(ready[0].events == EPOLLIN && ready[0].data.u64 == 0x1122334455667788);
    CHECK(ready[1].events == 0xeeeeeeee);

    event.events = EPOLLIN | EPOLLET;
    CHECK(epoll_ctl(poller, EPOLL_CTL_MOD, ends[0], &event) == 0);
    CHECK(epoll_wait(poller, ready, 4, 0) == 1 && epoll_wait(poller, ready, 4, 0) == 0);
    event.events = EPOLLIN | EPOLLONESHOT;
    CHECK(epoll_ctl(poller, EPOLL_CTL_MOD, ends[0], &event) == 0);
    CHECK(epoll_wait(poller, ready, 4, 0) == 1 && epoll_wait(poller, ready, 4, 0) == 0);
    CHECK(epoll_ctl(poller, EPOLL_CTL_DEL, ends[0], NULL) == 0);
    CHECK_FAILS(epoll_ctl(poller, EPOLL_CTL_DEL, ends[0], NULL), ENOENT);
    CHECK_FAILS(epoll_wait(poller, ready, 0, 0), EINVAL);
    int file = file_with("data", "regular files cannot be polled");
    CHECK_FAILS(epoll_ctl(poller, EPOLL_CTL_ADD, file, &event), EPERM);
    // The old call, whose size argument has no meaning.
    CHECK(epoll_create(1) >= 0);
    say("poller %d\n", poller);
    return 0;
}
