// A woken consumer takes an item without checking again: another thread may have taken it.
// fails: status 1
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER;
static int count;

static void *consumer(void *unused)
{
	pthread_mutex_lock(&lock);
	if (count == 0)
		pthread_cond_wait(&not_empty, &lock);
	if (--count < 0) {
		fputs("took an item that was not there\n", stderr);
		exit(1);
	}
	pthread_mutex_unlock(&lock);
	return unused;
}

static void *producer(void *unused)
{
	for (int i = 0; i < 2; i++) {
		pthread_mutex_lock(&lock);
		count++;
		pthread_cond_signal(&not_empty);
		pthread_mutex_unlock(&lock);
	}
	return unused;
}

int main(void)
{
	pthread_t threads[3];
	pthread_create(&threads[0], NULL, consumer, NULL);
	pthread_create(&threads[1], NULL, producer, NULL);
	pthread_create(&threads[2], NULL, consumer, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	puts("all taken");
	return 0;
}
