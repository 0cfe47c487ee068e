// A thread uses what its creator stores only after it has created it.
// fails: signal 11
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static int storage[16];
static struct { int *volatile buffer; } connection;

static void *reader(void *unused)
{
	(void)unused;
	usleep(1000); /* usually it is busy with other work first */
	connection.buffer[0] = 42;
	return NULL;
}

int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, reader, NULL);
	connection.buffer = storage;
	pthread_join(thread, NULL);
	printf("read %d\n", connection.buffer[0]);
	return 0;
}
