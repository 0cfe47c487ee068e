/* Threads pass a turn around, and spin for it without a call. In every tenth round the first one
 * sleeps. The output depends on the order, and on how often the other threads looked meanwhile.
 * Usage: spinning [signals | exit | looks]. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 300, CALL_EVERY = 10 };

static atomic_int turn;
static volatile unsigned long at_signals, signals;
static unsigned long order;
static int pauses = 1, leaves;

static void note(int number)
{
    at_signals = at_signals * 31 + order + (unsigned long)number;
    signals++;
}

/* Returns how often the thread looked. */
static unsigned long await(int me)
{
    unsigned long looks = 0;
    if (pauses)
        for (; atomic_load_explicit(&turn, memory_order_acquire) != me; looks++)
            __builtin_ia32_pause();
    else
        while (atomic_load_explicit(&turn, memory_order_acquire) != me)
            ;
    return looks;
}

static void *work(void *argument)
{
    int me = (int)(long)argument;
    unsigned long looks = 0;
    for (int round = 0; round < ROUNDS; round++) {
        looks = looks * 7 + await(me);
        order = order * 31 + (unsigned long)me + looks;
        if (!me && round % CALL_EVERY == 0)
            nanosleep(&(struct timespec){0, 500000}, NULL);
        if (leaves && round == ROUNDS / 2)
            _exit(3);
        atomic_store_explicit(&turn, (me + 1) % THREADS, memory_order_release);
    }
    return (void *)looks;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    pthread_t threads[THREADS];
    unsigned long hash = 0;
    pauses = strcmp(how, "looks") != 0;
    leaves = strcmp(how, "exit") == 0;
    if (!strcmp(how, "signals")) {
        signal(SIGALRM, note);
        setitimer(ITIMER_REAL, &(struct itimerval){{0, 2000}, {0, 2000}}, NULL);
    }
    for (long index = 0; index < THREADS; index++)
        pthread_create(&threads[index], NULL, work, (void *)index);
    for (int index = 0; index < THREADS; index++) {
        void *looks;
        pthread_join(threads[index], &looks);
        hash = hash * 31 + (unsigned long)looks;
    }
    printf("%lx %lx %lu %lx\n", order, hash, signals, at_signals);
    return 0;
}
