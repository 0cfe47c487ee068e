/* Threads that compute and are cancelled wherever they are. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static volatile long count;

static void *spin(void *unused)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (;;)
		count++;
	return unused;
}

int main(void)
{
	for (int i = 0; i < 3; i++) {
		pthread_t thread;
		void *result;
		pthread_create(&thread, NULL, spin, NULL);
		usleep(20000);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		printf("%d %d\n", i, result == PTHREAD_CANCELED);
	}
	return 0;
}
