// The consumer checks for work and then waits; a wakeup in between is lost, and it waits for ever.
// fails: never ends
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t there_is_work = PTHREAD_COND_INITIALIZER;
static volatile int work;

static void *producer(void *unused)
{
	work = 1; /* without the lock */
	pthread_cond_signal(&there_is_work);
	return unused;
}

int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, producer, NULL);
	pthread_mutex_lock(&lock);
	if (!work)
		pthread_cond_wait(&there_is_work, &lock);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
	puts("worked");
	return 0;
}
