// Sleeping: the time must really pass during recording.
#include "check.h"
#include <time.h>

static long now_us(void) {
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int main(void) {
    guard();
    long start = now_us();
    struct timespec wait = {0, 20000000};
    struct timespec left = {7, 7};
    CHECK(nanosleep(&wait, &left) == 0 && left.tv_sec == 7);
    long middle = now_us();
    CHECK(middle - start >= 20000);
    CHECK(clock_nanosleep(CLOCK_REALTIME, 0, &wait, NULL) == 0);
    struct timespec until;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &until) == 0);
    until.tv_nsec += 10000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == 0);
    CHECK(usleep(1000) == 0 && sleep(0) == 0);
    CHECK(now_us() - middle >= 30000);
    wait.tv_nsec = 2000000000;
    CHECK_FAILS(nanosleep(&wait, NULL), EINVAL);
    say("%ld us %ld us\n", middle - start, now_us() - middle);
    return 0;
}
