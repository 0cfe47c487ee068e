/* Two threads take two locks in opposite orders, and wait for each other for ever. */
#include <pthread.h>
#include <stddef.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;

/* Waits until the other thread has its lock, too, so that the deadlock always happens. */
static void *take_second(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&second);
	pthread_barrier_wait(&both);
	pthread_mutex_lock(&first);
	return NULL;
}

static void take_first(void)
{
	pthread_mutex_lock(&first);
	pthread_barrier_wait(&both);
	pthread_mutex_lock(&second);
}

int main(void)
{
	pthread_t thread;

	pthread_barrier_init(&both, NULL, 2);
	pthread_create(&thread, NULL, take_second, NULL);
	take_first();
	return 0;
}
