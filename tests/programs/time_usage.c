// Time used: times, getrusage and clock, of a process and of its children.
#include "check.h"
#include <sys/resource.h>
#include <sys/times.h>
#include <time.h>

int main(void) {
    volatile unsigned long sum = 0;
    for (int index = 0; index < 3000000; index++) {
        sum += index;
    }
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (int index = 0; index < 3000000; index++) {
            sum += index;
        }
        _exit(0);
    }
    struct rusage of_child;
    int status;
    CHECK(wait4(child, &status, 0, &of_child) == child && status == 0);
    struct tms used;
    CHECK(times(&used) != -1);
    struct rusage own;
    struct rusage children;
    CHECK(getrusage(RUSAGE_SELF, &own) == 0 && getrusage(RUSAGE_CHILDREN, &children) == 0);
    CHECK(own.ru_maxrss > 0 && own.ru_utime.tv_sec >= 0);
    CHECK_FAILS(getrusage(77, &own), EINVAL);
    say("ticks %ld %ld clock %ld\n", (long)used.tms_utime, (long)used.tms_cutime, (long)clock());
    say("own %ld us %ld KB, faults %ld; child %ld us %ld us\n", (long)own.ru_utime.tv_usec, own.ru_maxrss, own.ru_minflt,
        (long)of_child.ru_utime.tv_usec, (long)children.ru_utime.tv_usec);
    return 0;
}
