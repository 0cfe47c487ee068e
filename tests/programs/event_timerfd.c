// timerfd: a single shot, a period, what remains, and disarming.
#include "check.h"
#include <poll.h>
#include <sys/timerfd.h>

int main(void) {
    guard();
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    uint64_t expirations = 0;
    CHECK(timer >= 0);
    CHECK_FAILS(read(timer, &expirations, 8), EAGAIN);
    struct itimerspec setting = {.it_value = {0, 2000000}, .it_interval = {0, 1000000}};
    struct itimerspec old;
    CHECK(timerfd_settime(timer, 0, &setting, &old) == 0 && old.it_value.tv_nsec == 0);
    struct pollfd set = {timer, POLLIN, 0};
    CHECK(poll(&set, 1, -1) == 1);
    CHECK(read(timer, &expirations, 8) == 8 && expirations >= 1);
    say("%lu expirations\n", (unsigned long)expirations);
    CHECK(timerfd_gettime(timer, &setting) == 0 && setting.it_interval.tv_nsec == 1000000);
    say("%ld ns remain\n", setting.it_value.tv_nsec);
    memset(&setting, 0, sizeof setting);
    CHECK(timerfd_settime(timer, 0, &setting, &old) == 0);
    CHECK(poll(&set, 1, 3) >= 0);
    int blocking = timerfd_create(CLOCK_REALTIME, 0);
    setting.it_value.tv_sec = 1;
    // A date in the past expires at once.
    CHECK(timerfd_settime(blocking, TFD_TIMER_ABSTIME, &setting, NULL) == 0);
    CHECK(read(blocking, &expirations, 8) == 8 && expirations == 1);
    CHECK_FAILS(timerfd_create(99, 0), EINVAL);
    return 0;
}
