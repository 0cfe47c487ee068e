// A thread uses what its creator stores only after it has created it.
// fails: signal 11
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct connection { int *buffer; };
static struct connection connection;

static void *reader(void *unused)
{
	(void)unused;
	connection.buffer[0] = 42;
	return NULL;
}

int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, reader, NULL);
	connection.buffer = calloc(16, sizeof *connection.buffer);
	pthread_join(thread, NULL);
	printf("read %d\n", connection.buffer[0]);
	return 0;
}
