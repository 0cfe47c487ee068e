// A call that a handler interrupts is made again at its own instruction, not through the code before it. Calls are still recorded
// after handlers that return, that nest, and that are left by a jump.
#include "check.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

static volatile sig_atomic_t ticks;
static sigjmp_buf place;

static void on_alarm(int number) {
    if (++ticks == 3)
        raise(SIGUSR1);
    if (ticks < 6)
        setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 5000}}, NULL);
    else
        CHECK(number && write(5, "x", 1) == 1);
}

static void on_user(int number) {
    struct timespec now;
    CHECK(number && clock_gettime(CLOCK_REALTIME, &now) == 0);
}

static void jump(int number) { siglongjmp(place, number); }

int main(void) {
    int ends[2];
    char byte = 0;
    CHECK(pipe(ends) == 0 && ends[0] == 3 && dup2(ends[1], 5) == 5 && dup2(ends[0], 6) == 6);
    CHECK(sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm, .sa_flags = SA_RESTART}, NULL) == 0);
    CHECK(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_user}, NULL) == 0);
    CHECK(sigaction(SIGUSR2, &(struct sigaction){.sa_handler = jump}, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 5000}}, NULL) == 0);
    CHECK(read(6, &byte, 1) == 1 && byte == 'x' && ticks == 6); // restarted five times
    int from = sigsetjmp(place, 1);
    if (!from)
        raise(SIGUSR2);
    CHECK(from == SIGUSR2);
    struct timespec now;
    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    say("at %ld.%09ld process %d\n", (long)now.tv_sec, now.tv_nsec, getpid());
    return 0;
}
