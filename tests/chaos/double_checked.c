// Double-checked initialisation that publishes the object before it is complete.
// fails: status 1
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct table { int size; int *entries; };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct table *volatile table;

static struct table *instance(void)
{
	if (!table) {
		pthread_mutex_lock(&lock);
		if (!table) {
			table = calloc(1, sizeof *table);
			table->entries = calloc(64, sizeof *table->entries);
			table->size = 64;
		}
		pthread_mutex_unlock(&lock);
	}
	return table;
}

static void *user(void *unused)
{
	(void)unused;
	return (void *)(long)instance()->size;
}

int main(void)
{
	pthread_t threads[3];
	void *sizes[3];
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, user, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], &sizes[i]);
	for (int i = 0; i < 3; i++)
		if ((long)sizes[i] != 64) {
			printf("thread %d saw a table of %ld\n", i, (long)sizes[i]);
			return 1;
		}
	puts("complete");
	return 0;
}
