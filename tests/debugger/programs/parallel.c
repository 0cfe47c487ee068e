/* Four threads run in parallel and synchronise by a mutex, a condition, an atomic counter, a
 * compare-and-exchange and a barrier. There are no data races. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 40 };
long locked, counted, exchanged, turns;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;

long add(long which, long round)
{
	long own = which;
	for (volatile int i = 0; i < 20000; i++)
		own += i ^ round;
	__atomic_fetch_add(&counted, own, __ATOMIC_SEQ_CST);
	long seen = __atomic_load_n(&exchanged, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&exchanged, &seen, seen * 3 + which, 0,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	pthread_mutex_lock(&lock);
	locked = locked * 7 + which;
	pthread_mutex_unlock(&lock);
	return own + round;
}

static void wait_for_turn(long which)
{
	pthread_mutex_lock(&lock);
	while (turns % THREADS != which)
		pthread_cond_wait(&moved, &lock);
	turns++;
	pthread_cond_broadcast(&moved);
	pthread_mutex_unlock(&lock);
}

static void *work(void *argument)
{
	for (long round = 0; round < ROUNDS; round++) {
		add((long)argument, round);
		if (round % 16 == 0) {
			usleep(100);
			pthread_barrier_wait(&barrier);
			wait_for_turn((long)argument);
		}
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%ld %ld %lx %ld\n", locked, counted, exchanged, turns);
	return 0;
}
