/* A thread computes while the first one sleeps now and then, so the thread is stopped between its
 * calls. The result is printed. With an argument it computes until it is killed, and prints a word
 * when it has begun. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static unsigned long result;
static volatile int goes_on;

static void *compute(void *argument)
{
	unsigned long sum = 1;
	do
		for (long round = 0; round < 60000000; round++)
			sum = sum * 6364136223846793005UL + round;
	while (goes_on);
	result = sum;
	return argument;
}

int main(int count, char **arguments)
{
	pthread_t thread;
	(void)arguments;
	goes_on = count > 1;
	if (pthread_create(&thread, NULL, compute, NULL))
		return 1;
	for (int round = 0; round < 5; round++)
		usleep(5000);
	if (goes_on) {
		dprintf(1, "computing\n");
		for (volatile long round = 0;; round++)
			;
	}
	pthread_join(thread, NULL);
	printf("%lx\n", result);
	return 0;
}
