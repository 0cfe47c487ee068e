/* Two threads count with an atomic variable, but load and store it separately: a step of the other
 * thread in between is lost. One thread is usually done before the other one has begun. */
#include <pthread.h>
#include <stdatomic.h>

#define STEPS 5

static atomic_int count;

static void *work(void *unused)
{
	for (int i = 0; i < STEPS; i++)
		atomic_store(&count, atomic_load(&count) + 1);
	return unused;
}

int main(void)
{
	pthread_t other;
	pthread_create(&other, NULL, work, NULL);
	work(NULL);
	pthread_join(other, NULL);
	return atomic_load(&count) != 2 * STEPS;
}
