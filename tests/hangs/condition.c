/* A lost wakeup: the signal comes before the wait. */
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void *wait_for_change(void *unused)
{
	pthread_mutex_lock(&lock);
	write(1, "ready\n", 6);
	pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return unused;
}

int main(void)
{
	pthread_t thread;

	pthread_cond_signal(&changed);
	pthread_create(&thread, NULL, wait_for_change, NULL);
	pthread_join(thread, NULL);
	return 0;
}
