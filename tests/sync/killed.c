/* The process ends while others still compute and wait: one spins without end, one waits for a mutex that is never given back. */
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

int main(void)
{
    pthread_t thread;
    pthread_mutex_lock(&mutex);
    pthread_create(&thread, NULL, spin, NULL);
    pthread_create(&thread, NULL, wait_for_ever, NULL);
    usleep(20000);
    puts("done");
    fflush(stdout);
    _exit(3);
}
