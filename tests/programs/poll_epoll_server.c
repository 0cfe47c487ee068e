// A small event loop: eight children write at different times, one epoll loop reads them all. The order is recorded.
#include "check.h"
#include <sys/epoll.h>
#include <time.h>

enum { CHILDREN = 8, ROUNDS = 5 };

int main(void) {
    guard();
    int poller = epoll_create1(0);
    CHECK(poller >= 0);
    for (int index = 0; index < CHILDREN; index++) {
        int ends[2];
        CHECK(pipe(ends) == 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            for (int round = 0; round < ROUNDS; round++) {
                usleep((getpid() % 7) * 300);
                char letter = 'a' + index;
                CHECK(write(ends[1], &letter, 1) == 1);
            }
            _exit(0);
        }
        close(ends[1]);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = ends[0]};
        CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, ends[0], &event) == 0);
    }
    int open_pipes = CHILDREN;
    int letters = 0;
    while (open_pipes > 0) {
        struct epoll_event ready[3];
        struct timespec wait = {5, 0};
        long count = syscall(SYS_epoll_pwait2, poller, ready, 3, &wait, NULL, 8);
        CHECK(count > 0);
        for (int index = 0; index < count; index++) {
            char text[3];
            ssize_t got = read(ready[index].data.fd, text, sizeof text);
            CHECK(got >= 0);
            letters += got;
            open_pipes -= got == 0;
            if (got == 0) {
                // Later children hold copies of this end, so closing it alone would leave it in the set.
                CHECK(epoll_ctl(poller, EPOLL_CTL_DEL, ready[index].data.fd, NULL) == 0);
                close(ready[index].data.fd);
            }
            say("%.*s", (int)got, text);
        }
    }
    say("\n");
    CHECK(letters == CHILDREN * ROUNDS);
    for (int index = 0; index < CHILDREN; index++) {
        CHECK(wait(NULL) > 0);
    }
    return 0;
}
