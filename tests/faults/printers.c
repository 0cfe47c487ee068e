/* Four threads print in turns, under a lock, until they are killed. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *print(void *number)
{
	for (long line = 0;; line++) {
		pthread_mutex_lock(&lock);
		dprintf(1, "%ld %ld\n", (long)number, line);
		pthread_mutex_unlock(&lock);
		if (line % 8 == 0)
			usleep(50);
	}
	return NULL;
}

int main(void)
{
	pthread_t thread;
	for (long number = 0; number < 4; number++)
		if (pthread_create(&thread, NULL, print, (void *)number))
			return 1;
	pause();
	return 0;
}
