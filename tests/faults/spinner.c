/* A thread spins until another one tells it to stop. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static volatile int stop;

static void *spin(void *unused)
{
	(void)unused;
	for (volatile long i = 0; !stop; i++)
		;
	return NULL;
}

int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, spin, NULL);
	usleep(20000);
	stop = 1;
	pthread_join(thread, NULL);
	puts("stopped");
	return 0;
}
