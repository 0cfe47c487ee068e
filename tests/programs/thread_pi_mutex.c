// Mutexes with priority inheritance: contended, with a time limit, interrupted by a signal, by trylock, and left behind by an owner that dies.
// flags: -pthread
// group: threads
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>
#include <time.h>

enum { THREADS = 4, ROUNDS = 500 };

static pthread_mutex_t lock;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned long count, order;
static volatile sig_atomic_t rung;

static void make(pthread_mutex_t *mutex, int robust) {
    pthread_mutexattr_t attributes;
    CHECK(pthread_mutexattr_init(&attributes) == 0);
    CHECK(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) == 0);
    CHECK(pthread_mutexattr_setrobust(&attributes, robust ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED) == 0);
    CHECK(pthread_mutex_init(mutex, &attributes) == 0);
}

static void *contend(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(pthread_mutex_lock(&lock) == 0);
        count++;
        order = order * 31 + (uintptr_t)argument;
        if (round % 16 == 0) {
            sched_yield();
        }
        CHECK(pthread_mutex_unlock(&lock) == 0);
    }
    return NULL;
}

static void run(pthread_t *threads, void *(*work)(void *)) {
    for (uintptr_t index = 0; index < THREADS; index++) {
        CHECK(pthread_create(&threads[index], NULL, work, (void *)(index + 1)) == 0);
    }
}

static void *try_in_vain(void *argument UNUSED) {
    struct timespec limit;
    CHECK(pthread_mutex_trylock(&lock) == EBUSY);
    CHECK(clock_gettime(CLOCK_REALTIME, &limit) == 0);
    limit.tv_nsec += 20000000;
    limit.tv_sec += limit.tv_nsec / 1000000000;
    limit.tv_nsec %= 1000000000;
    CHECK(pthread_mutex_timedlock(&lock, &limit) == ETIMEDOUT);
    return NULL;
}

static void on_signal(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    rung++;
}

static void *wait_for_lock(void *argument UNUSED) {
    CHECK(pthread_mutex_lock(&lock) == 0);
    CHECK(rung == 1);
    return pthread_mutex_unlock(&lock) == 0 ? NULL : (void *)1;
}

static void interrupt(void) {
    pthread_t thread;
    handle(SIGUSR1, on_signal, 0);
    CHECK(pthread_mutex_lock(&lock) == 0);
    CHECK(pthread_create(&thread, NULL, wait_for_lock, NULL) == 0);
    usleep(20000);
    CHECK(pthread_kill(thread, SIGUSR1) == 0);
    while (rung == 0) {
        usleep(1000);
    }
    CHECK(pthread_mutex_unlock(&lock) == 0 && pthread_join(thread, NULL) == 0);
}

static void *die_with(void *argument) {
    CHECK(pthread_mutex_lock(argument) == 0);
    return NULL;
}

static void survive(void) {
    pthread_mutex_t robust;
    pthread_t thread;
    make(&robust, 1);
    CHECK(pthread_create(&thread, NULL, die_with, &robust) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pthread_mutex_lock(&robust) == EOWNERDEAD);
    CHECK(pthread_mutex_consistent(&robust) == 0);
    CHECK(pthread_mutex_unlock(&robust) == 0);
    CHECK(pthread_mutex_lock(&robust) == 0 && pthread_mutex_unlock(&robust) == 0);
}

static void *wait_for_change(void *argument UNUSED) {
    CHECK(pthread_mutex_lock(&lock) == 0);
    while (count != 0) {
        CHECK(pthread_cond_wait(&changed, &lock) == 0);
    }
    return pthread_mutex_unlock(&lock) == 0 ? NULL : (void *)1;
}

static void fail(void) {
    uint32_t word = 1;
    CHECK_FAILS(syscall(SYS_futex, &word, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0), EPERM);
    word = (uint32_t)gettid();
    CHECK_FAILS(syscall(SYS_futex, &word, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0), EDEADLK);
    CHECK_FAILS(syscall(SYS_futex, (char *)&word + 1, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0), EINVAL);
    CHECK_FAILS(syscall(SYS_futex, 4096, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0), EFAULT);
    CHECK(syscall(SYS_futex, &word, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0) == 0 && word == 0);
}

int main(void) {
    guard();
    pthread_t threads[THREADS];
    make(&lock, 0);
    run(threads, contend);
    for (int index = 0; index < THREADS; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    CHECK(count == THREADS * ROUNDS);
    CHECK(pthread_mutex_lock(&lock) == 0);
    CHECK(pthread_create(&threads[0], NULL, try_in_vain, NULL) == 0 && pthread_join(threads[0], NULL) == 0);
    CHECK(pthread_mutex_unlock(&lock) == 0);
    interrupt();
    survive();
    fail();
    run(threads, wait_for_change);
    usleep(5000);
    CHECK(pthread_mutex_lock(&lock) == 0);
    count = 0;
    CHECK(pthread_cond_broadcast(&changed) == 0 && pthread_mutex_unlock(&lock) == 0);
    for (int index = 0; index < THREADS; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    say("order %016lx\n", order);
    return 0;
}
