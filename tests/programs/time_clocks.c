// Clocks read by the C library through the vDSO: the values are printed, and must not go backwards.
#include "check.h"
#include <sys/time.h>
#include <time.h>

int main(void) {
    clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE,
                          CLOCK_MONOTONIC_COARSE, CLOCK_TAI, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID};
    for (size_t index = 0; index < sizeof clocks / sizeof clocks[0]; index++) {
        struct timespec first;
        struct timespec second;
        struct timespec resolution;
        CHECK(clock_gettime(clocks[index], &first) == 0 && clock_gettime(clocks[index], &second) == 0);
        CHECK(clock_getres(clocks[index], &resolution) == 0 && resolution.tv_sec == 0);
        if (clocks[index] == CLOCK_MONOTONIC) {
            CHECK(second.tv_sec > first.tv_sec || (second.tv_sec == first.tv_sec && second.tv_nsec >= first.tv_nsec));
        }
        say("clock %d: %ld.%09ld %ld.%09ld\n", clocks[index], (long)first.tv_sec, first.tv_nsec, (long)second.tv_sec,
            second.tv_nsec);
    }
    struct timeval now;
    struct timezone zone;
    CHECK(gettimeofday(&now, &zone) == 0 && gettimeofday(&now, NULL) == 0);
    time_t seconds;
    CHECK(time(&seconds) == seconds && seconds > 1600000000);
    struct tm broken;
    CHECK(localtime_r(&seconds, &broken));
    say("%ld.%06ld %ld %02d:%02d\n", (long)now.tv_sec, (long)now.tv_usec, (long)seconds, broken.tm_hour, broken.tm_min);
    struct timespec bad;
    CHECK_FAILS(clock_gettime(99, &bad), EINVAL);
    return 0;
}
