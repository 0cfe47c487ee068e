// Two threads, each with the lock that the other wants. Prints that, and never ends by itself.
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both_hold_one;

static void *other(void *unused)
{
	pthread_mutex_lock(&second);
	pthread_barrier_wait(&both_hold_one);
	write(1, "ready\n", 6);
	pthread_mutex_lock(&first);
	return unused;
}

int main(void)
{
	pthread_t thread;
	pthread_barrier_init(&both_hold_one, NULL, 2);
	pthread_create(&thread, NULL, other, NULL);
	pthread_mutex_lock(&first);
	pthread_barrier_wait(&both_hold_one);
	pthread_mutex_lock(&second);
	return 0;
}
