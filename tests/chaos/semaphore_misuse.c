// A semaphore that should let one thread in lets in two.
// fails: status 1
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

static sem_t entry;
static volatile int length;
static int items[64];

static void *append(void *item)
{
	for (int i = 0; i < 4; i++) {
		sem_wait(&entry);
		int at = length;
		items[at] = (int)(long)item;
		length = at + 1;
		sem_post(&entry);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[2];
	sem_init(&entry, 0, 2);
	for (long i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, append, (void *)(i + 1));
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%d items\n", length);
	return length != 8;
}
