// select and pselect: sets that change, high descriptors, and the time left.
#include "check.h"
#include <sys/select.h>

int main(void) {
    guard();
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(dup2(ends[0], 700) == 700);
    fd_set reading;
    fd_set writing;
    FD_ZERO(&reading);
    FD_ZERO(&writing);
    FD_SET(ends[0], &reading);
    FD_SET(700, &reading);
    FD_SET(ends[1], &writing);
    struct timeval wait = {3, 0};
    CHECK(select(701, &reading, &writing, NULL, &wait) == 1);
    CHECK(!FD_ISSET(ends[0], &reading) && !FD_ISSET(700, &reading) && FD_ISSET(ends[1], &writing));
    say("left %ld.%06ld\n", (long)wait.tv_sec, (long)wait.tv_usec);

    CHECK(write(ends[1], "x", 1) == 1);
    FD_SET(700, &reading);
    CHECK(select(701, &reading, NULL, NULL, NULL) == 1 && FD_ISSET(700, &reading));
    wait = (struct timeval){0, 3000};
    CHECK(select(0, NULL, NULL, NULL, &wait) == 0 && wait.tv_usec == 0);
    struct timespec short_wait = {0, 1000000};
    sigset_t mask;
    CHECK(sigfillset(&mask) == 0);
    FD_ZERO(&writing);
    FD_SET(ends[0], &writing);
    CHECK(pselect(ends[0] + 1, NULL, NULL, &writing, &short_wait, &mask) == 0);
    FD_SET(600, &reading);
    CHECK_FAILS(select(701, &reading, NULL, NULL, &wait), EBADF);
    return 0;
}
