/* All synchronisation of POSIX threads. The output depends on the order in which threads came. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 2000, PLACES = 8 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, recursive;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static sem_t semaphore;
static int queue[PLACES], queued, taken_from;
static uint64_t order = 1, twice = 1, versions, initialised;

static void note(uint64_t what) { order = (order ^ what) * 0x9e3779b97f4a7c15; }

static void destroy(void *value)
{
    pthread_mutex_lock(&mutex);
    note((uint64_t)(uintptr_t)value);
    pthread_mutex_unlock(&mutex);
}

static void initialise(void)
{
    initialised++;
    pthread_key_create(&key, destroy);
}

static void put(int item)
{
    pthread_mutex_lock(&mutex);
    while (queued == PLACES)
        pthread_cond_wait(&not_full, &mutex);
    queue[(taken_from + queued++) % PLACES] = item;
    note((uint64_t)item);
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&mutex);
}

static int take(int who)
{
    pthread_mutex_lock(&mutex);
    while (queued == 0)
        pthread_cond_wait(&not_empty, &mutex);
    int item = queue[taken_from];
    taken_from = (taken_from + 1) % PLACES;
    queued--;
    note((uint64_t)item << 8 | (uint64_t)who);
    pthread_cond_broadcast(&not_full);
    pthread_mutex_unlock(&mutex);
    return item;
}

static void read_or_write(int who, int round, uint64_t *seen)
{
    if (round % 16 == who) {
        pthread_rwlock_wrlock(&rwlock);
        versions += 1 + (uint64_t)who;
        pthread_rwlock_unlock(&rwlock);
    } else if (pthread_rwlock_tryrdlock(&rwlock) == 0) {
        *seen = (*seen ^ versions) * 31;
        pthread_rwlock_unlock(&rwlock);
    }
}

static void hold_twice(int who)
{
    if (pthread_mutex_trylock(&recursive) == EBUSY)
        pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&recursive);
    twice = twice * 5 + (uint64_t)who;
    pthread_mutex_unlock(&recursive);
    pthread_mutex_unlock(&recursive);
}

static void *work(void *argument)
{
    int who = (int)(intptr_t)argument;
    uint64_t seen = 0;
    pthread_once(&once, initialise);
    pthread_setspecific(key, (void *)(uintptr_t)(100 + who));
    for (int round = 0; round < ROUNDS; round++) {
        if (who % 2)
            put(round * THREADS + who);
        else
            seen += (uint64_t)take(who);
        read_or_write(who, round, &seen);
        if (round % 8 == 0) {
            sem_wait(&semaphore);
            hold_twice(who);
            sem_post(&semaphore);
        }
        if (round % 500 == 0 && pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            note(0xba + (uint64_t)who); /* all others wait at the next one */
        if (round % 500 == 0)
            pthread_barrier_wait(&barrier);
    }
    return (void *)(uintptr_t)seen;
}

int main(void)
{
    pthread_t threads[THREADS];
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &attributes);
    pthread_barrier_init(&barrier, NULL, THREADS);
    sem_init(&semaphore, 0, 1);
    for (int who = 0; who < THREADS; who++)
        pthread_create(&threads[who], NULL, work, (void *)(intptr_t)who);
    void *seen[THREADS];
    for (int who = 0; who < THREADS; who++)
        pthread_join(threads[who], &seen[who]);
    for (int who = 0; who < THREADS; who++)
        note((uint64_t)(uintptr_t)seen[who]);
    printf("%016llx %016llx %llu %llu\n", (unsigned long long)order, (unsigned long long)twice, (unsigned long long)versions, (unsigned long long)initialised);
    return 0;
}
