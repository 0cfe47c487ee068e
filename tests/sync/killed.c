/* The process ends while other threads still compute and wait: one spins without end, one waits for
 * a mutex that is never released, one for a condition that is never signalled. What it did before
 * can be seen. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned long spun;

static void *spin(void *unused)
{
    for (;;)
        spun++;
    return unused;
}

static void *wait_for_ever(void *unused)
{
    pthread_mutex_lock(&mutex);
    return unused;
}

static pthread_mutex_t lent = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int waits;

static void *wait_for_signal(void *unused)
{
    pthread_mutex_lock(&lent);
    waits = 1;
    for (;;)
        pthread_cond_wait(&never, &lent);
    return unused;
}

static int lend(void)
{
    pthread_mutex_lock(&lent);
    int seen = waits;
    pthread_mutex_unlock(&lent);
    return seen;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_signal, NULL);
    while (!lend())
        usleep(100);
    pthread_mutex_lock(&mutex);
    pthread_create(&thread, NULL, spin, NULL);
    pthread_create(&thread, NULL, wait_for_ever, NULL);
    usleep(20000);
    puts("done");
    fflush(stdout);
    _exit(3);
}
