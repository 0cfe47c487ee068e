/* Four threads add to a counter without a lock, and take turns at another. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 60 };
volatile long raced, locked;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

long add(long which, long round)
{
	long before = raced;
	for (volatile int i = 0; i < 20000; i++)
		;
	raced = before + 1;
	pthread_mutex_lock(&lock);
	locked++;
	pthread_mutex_unlock(&lock);
	return which + round;
}

static void *work(void *argument)
{
	for (long round = 0; round < ROUNDS; round++) {
		add((long)argument, round);
		if (round % 16 == 0)
			usleep(100);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%ld of %ld\n", raced, locked);
	return 0;
}
