/* Threads add under a lock, and one of them crashes after a while. */
#include <pthread.h>
#include <stddef.h>

enum { THREADS = 3, ROUNDS = 1000, CRASHES = 2, ENOUGH = 100 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total;
static int *volatile nowhere;

static void perhaps_crash(long who, long seen)
{
    if (who == CRASHES && seen > ENOUGH)
        *nowhere = 1;
}

static void *work(void *who)
{
    for (int round = 0; round < ROUNDS; round++) {
        pthread_mutex_lock(&lock);
        long seen = ++total;
        pthread_mutex_unlock(&lock);
        perhaps_crash((long)who, seen);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (long who = 0; who < THREADS; who++)
        pthread_create(&threads[who], NULL, work, (void *)who);
    for (int who = 0; who < THREADS; who++)
        pthread_join(threads[who], NULL);
    return 0;
}
