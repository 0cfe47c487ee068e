/* Two threads take two mutexes in opposite orders. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;

static void *take_second(void *unused)
{
	pthread_mutex_lock(&second);
	pthread_barrier_wait(&both);
	pthread_mutex_lock(&first);
	return unused;
}

static void take_first(void)
{
	pthread_mutex_lock(&first);
	pthread_barrier_wait(&both);
	write(1, "ready\n", 6);
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
