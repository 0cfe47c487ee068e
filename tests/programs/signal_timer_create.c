// POSIX timers: a signal with a value, overruns, remaining time, deletion.
#include "check.h"
#include <time.h>

int main(void) {
    guard();
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 2);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 2, .sigev_value.sival_int = 77};
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    struct itimerspec setting = {.it_value = {0, 1000000}, .it_interval = {0, 500000}};
    CHECK(timer_settime(timer, 0, &setting, NULL) == 0);
    siginfo_t info;
    CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 2);
    CHECK(info.si_code == SI_TIMER && info.si_value.sival_int == 77);
    usleep(5000);
    CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 2);
    int overruns = timer_getoverrun(timer);
    CHECK(overruns >= 0 && timer_gettime(timer, &setting) == 0 && setting.it_interval.tv_nsec == 500000);
    say("%d overruns, %ld ns left\n", overruns, setting.it_value.tv_nsec);
    CHECK(timer_delete(timer) == 0);
    CHECK_FAILS(syscall(SYS_timer_gettime, 12345, &setting), EINVAL);
    return 0;
}
