/* A thread waits for a semaphore that no thread posts; the others wait for that thread. */
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

static sem_t wanted;

static void *wait_for_it(void *unused)
{
	write(1, "ready\n", 6);
	sem_wait(&wanted);
	return unused;
}

int main(void)
{
	pthread_t thread;

	sem_init(&wanted, 0, 0);
	pthread_create(&thread, NULL, wait_for_it, NULL);
	pthread_join(thread, NULL);
	return 0;
}
