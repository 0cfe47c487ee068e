// Threads take turns often, and keep asking where they and others may run: wherever the process may, until a thread sets an affinity. Programs that
// they start may run there, too.
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <spawn.h>

enum { TURNS = 3000, ASKED_EACH = 100 };

static cpu_set_t all, one, expected[2];
static pid_t tids[2];
static pthread_barrier_t barrier;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;

static void check_cores(pid_t tid, const cpu_set_t *wanted) {
    cpu_set_t cores;
    CHECK(sched_getaffinity(tid, sizeof cores, &cores) == 0);
    CHECK(CPU_EQUAL(&cores, wanted));
}

static void check_all_cores(long self) {
    check_cores(0, &expected[self]);
    check_cores(tids[self], &expected[self]);
    check_cores(tids[!self], &expected[!self]);
    check_cores(getpid(), &all);
}

static void take_turns(long self) {
    pthread_barrier_wait(&barrier);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < TURNS; i++) {
        while (turn % 2 != self) {
            pthread_cond_wait(&changed, &lock);
        }
        turn++;
        pthread_cond_signal(&changed);
        if (i % ASKED_EACH == ASKED_EACH - 1) {
            check_all_cores(self);
        }
    }
    pthread_mutex_unlock(&lock);
    pthread_barrier_wait(&barrier);
}

static void start_others(void) {
    extern char **environ;
    char wanted[16];
    snprintf(wanted, sizeof wanted, "%d", CPU_COUNT(&all));
    char *arguments[] = {"thread_affinity", wanted, NULL};
    pid_t child;
    CHECK(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) == 0);
    expect_exit(child, 0);
    child = fork();
    if (child == 0) {
        check_cores(0, &all);
        execv("/proc/self/exe", arguments);
        _exit(1);
    }
    expect_exit(child, 0);
}

static void *work(void *number) {
    long self = (long)number;
    tids[self] = gettid();
    take_turns(self);
    if (self == 0) {
        start_others();
        CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
        expected[0] = one;
    }
    take_turns(self);
    if (self == 0) {
        CHECK(sched_setaffinity(tids[1], sizeof one, &one) == 0);
        expected[1] = one;
    }
    take_turns(self);
    return NULL;
}

int main(int count, char **arguments) {
    guard();
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    if (count > 1) {
        return CPU_COUNT(&all) != atoi(arguments[1]);
    }
    int first = 0;
    while (!CPU_ISSET(first, &all)) {
        first++;
    }
    CPU_SET(first, &one);
    expected[0] = expected[1] = all;
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    say("everywhere, and where it was said\n");
    return 0;
}
