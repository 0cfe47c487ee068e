/* One thread takes a lock over and over and makes no call; the other sleeps, and notes how far the
 * first has come. The output depends on each hand-over. Usage: passing [exit | signals]. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 200 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long taken, seen[ROUNDS];
static volatile unsigned long at_signals;
static atomic_int done;

static void note(int number)
{
    at_signals = at_signals * 31 + taken + (unsigned long)number;
}

static void *sleeper(void *ends)
{
    for (int round = 0; round < ROUNDS; round++) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        pthread_mutex_lock(&lock);
        seen[round] = taken;
        pthread_mutex_unlock(&lock);
    }
    if (ends)
        _exit(3);
    done = 1;
    return NULL;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    pthread_t thread;
    setvbuf(stdout, NULL, _IONBF, 0);
    pthread_create(&thread, NULL, sleeper, strcmp(how, "exit") ? NULL : &lock);
    if (!strcmp(how, "signals")) {
        signal(SIGALRM, note);
        setitimer(ITIMER_REAL, &(struct itimerval){{0, 3000}, {0, 3000}}, NULL);
    }
    while (!done) {
        pthread_mutex_lock(&lock);
        taken++;
        pthread_mutex_unlock(&lock);
    }
    pthread_join(thread, NULL);
    unsigned long hash = 0;
    for (int round = 0; round < ROUNDS; round++)
        hash = hash * 31 + seen[round];
    printf("%lu %lx %lx\n", taken, hash, at_signals);
    return 0;
}
