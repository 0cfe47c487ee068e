/* Threads that are cancelled: while they read, wait for a semaphore or on a condition, at a test
 * for cancellation, and while cancellation is disabled. Others make calls that are cancellation
 * points. Prints what each had done by then, which depends on the order of all threads. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { KINDS = 5, EACH = 3, ROUNDS = 6, BUSY = 2 };

static int pipes[2], ends[2], is_over;
static sem_t never, begun;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t done[KINDS * EACH], order = 1;

static void require(int is_good)
{
    if (!is_good)
        abort();
}

static void note(uint64_t what)
{
    pthread_mutex_lock(&mutex);
    order = order * 1000003 + what;
    pthread_mutex_unlock(&mutex);
}

static int over(int from_now_on)
{
    pthread_mutex_lock(&mutex);
    is_over |= from_now_on;
    int is = is_over;
    pthread_mutex_unlock(&mutex);
    return is;
}

static void give_back(void *argument)
{
    (void)argument;
    pthread_mutex_unlock(&mutex);
}

static void at_the_end(void *argument) { note((uintptr_t)argument); }

static void read_for_ever(uint64_t *count)
{
    char byte;
    while (read(pipes[0], &byte, 1) == 1)
        ++*count;
}

static void wait_for_ever(uint64_t *count)
{
    while (sem_wait(&never) == 0)
        ++*count;
}

static void wait_for_change(uint64_t *count)
{
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(give_back, NULL);
    for (;; ++*count)
        pthread_cond_wait(&changed, &mutex);
    pthread_cleanup_pop(1);
}

static void test_for_ever(uint64_t *count)
{
    for (;; ++*count)
        pthread_testcancel();
}

static void finish_first(uint64_t *count)
{
    int state;
    char byte;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    for (int i = 0; i < 20; i++)
        *count += write(pipes[1], "", 1) == 1;
    pthread_setcancelstate(state, &state);
    while (read(ends[0], &byte, 1) == 1)
        ++*count;
}

static void (*const kinds[KINDS])(uint64_t *) = {
    read_for_ever, wait_for_ever, wait_for_change, test_for_ever, finish_first};

static void *run(void *argument)
{
    uintptr_t me = (uintptr_t)argument;
    pthread_cleanup_push(at_the_end, argument);
    require(sem_post(&begun) == 0);
    kinds[me % KINDS](&done[me]);
    pthread_cleanup_pop(1);
    return NULL;
}

/* Calls that are cancellation points, and what the other threads wait for. */
static void *keep_busy(void *argument)
{
    for (int i = 0; !over(0); i++) {
        (void)!write(pipes[1], "", 1);
        require(sem_post(&never) == 0);
        pthread_cond_signal(&changed);
        if (i % 8 == 0)
            note((uintptr_t)argument);
    }
    return NULL;
}

static void cancel_all(int round)
{
    pthread_t threads[KINDS * EACH];
    for (uintptr_t i = 0; i < KINDS * EACH; i++)
        require(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
    for (int i = 0; i < KINDS * EACH; i++)
        require(sem_wait(&begun) == 0);
    for (int i = 0; i < KINDS * EACH; i++)
        require(pthread_cancel(threads[(i + round) % (KINDS * EACH)]) == 0);
    for (int i = 0; i < KINDS * EACH; i++) {
        void *result;
        require(pthread_join(threads[i], &result) == 0);
        require(result == PTHREAD_CANCELED);
    }
}

int main(void)
{
    pthread_t busy[BUSY];
    require(pipe(pipes) == 0 && pipe(ends) == 0);
    require(fcntl(pipes[1], F_SETFL, O_NONBLOCK) == 0);
    require(sem_init(&never, 0, 0) == 0 && sem_init(&begun, 0, 0) == 0);
    for (uintptr_t i = 0; i < BUSY; i++)
        require(pthread_create(&busy[i], NULL, keep_busy, (void *)(i + 100)) == 0);
    for (int round = 0; round < ROUNDS; round++)
        cancel_all(round);
    over(1);
    for (int i = 0; i < BUSY; i++)
        require(pthread_join(busy[i], NULL) == 0);
    for (int i = 0; i < KINDS * EACH; i++)
        printf("%llu ", (unsigned long long)done[i]);
    printf("%llx\n", (unsigned long long)order);
    return 0;
}
