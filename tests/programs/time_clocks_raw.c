// The same clocks read by system calls, without the vDSO.
#include "check.h"
#include <sched.h>
#include <sys/time.h>
#include <time.h>

int main(void) {
    struct timespec stamp = {0};
    struct timespec library;
    CHECK(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &stamp) == 0);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &library) == 0);
    // Both ways must return the same time.
    CHECK(library.tv_sec - stamp.tv_sec <= 5 && library.tv_sec >= stamp.tv_sec);
    say("%ld.%09ld\n", (long)stamp.tv_sec, stamp.tv_nsec);
    struct timeval now;
    struct timezone zone;
    CHECK(syscall(SYS_gettimeofday, &now, &zone) == 0);
    long seconds = 0;
    CHECK(syscall(SYS_time, &seconds) == seconds && seconds + 1 >= now.tv_sec); /* the time of the last tick */
    say("%ld.%06ld %ld\n", (long)now.tv_sec, (long)now.tv_usec, seconds);
    CHECK(syscall(SYS_clock_getres, CLOCK_REALTIME, NULL) == 0);
    CHECK(syscall(SYS_clock_getres, CLOCK_REALTIME, &stamp) == 0 && stamp.tv_sec == 0);
    unsigned processor = 1000000;
    unsigned node = 1000000;
    CHECK(syscall(SYS_getcpu, &processor, &node, NULL) == 0 && processor < 100000 && node < 100000);
    say("processor %u node %u\n", processor, node);
    return 0;
}
