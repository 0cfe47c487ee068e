// A signal sent to a thread reaches that thread; one sent to the process reaches a thread that does not block it.
// flags: -pthread
// group: threads
#include "check.h"
#include <pthread.h>

static __thread volatile int own;
static volatile int stop;
static volatile pid_t receiver;

static void on_signal(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    own++;
    receiver = syscall(SYS_gettid);
}

static void *work(void *argument UNUSED) {
    while (!stop) {
        usleep(300);
    }
    return (void *)(long)own;
}

int main(void) {
    guard();
    handle(SIGUSR1, on_signal, SA_RESTART);
    pthread_t first;
    pthread_t second;
    CHECK(pthread_create(&first, NULL, work, NULL) == 0 && pthread_create(&second, NULL, work, NULL) == 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    for (int round = 0; round < 5; round++) {
        receiver = 0;
        CHECK(pthread_kill(first, SIGUSR1) == 0);
        while (receiver == 0) {
            usleep(100);
        }
    }
    receiver = 0;
    CHECK(kill(getpid(), SIGUSR1) == 0);
    while (receiver == 0) {
        usleep(100);
    }
    CHECK(receiver != getpid() && own == 0);
    stop = 1;
    void *of_first;
    void *of_second;
    CHECK(pthread_join(first, &of_first) == 0 && pthread_join(second, &of_second) == 0);
    CHECK((long)of_first >= 5 && (long)of_first + (long)of_second == 6);
    say("receiver %d\n", receiver);
    return 0;
}
