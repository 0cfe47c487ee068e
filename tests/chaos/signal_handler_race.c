// A handler reads two values that the program changes one after the other.
// fails: status 1
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile long low, high;
static volatile sig_atomic_t torn, done;

static void handler(int number)
{
	(void)number;
	if (low != high)
		torn = 1;
}

static void *sender(void *target)
{
	for (int i = 0; i < 10 && !done; i++) {
		pthread_kill(*(pthread_t *)target, SIGUSR1);
		usleep(100);
	}
	return NULL;
}

static long work(long value)
{
	for (int i = 0; i < 400; i++)
		value = value * 6364136223846793005 + 1442695040888963407;
	return value;
}

int main(void)
{
	pthread_t self = pthread_self(), thread;
	signal(SIGUSR1, handler);
	pthread_create(&thread, NULL, sender, &self);
	long value = 1;
	for (int i = 0; i < 2000 && !torn; i++) {
		value = work(value);
		low++;
		high++;
	}
	done = 1;
	pthread_join(thread, NULL);
	printf("%s\n", torn ? "the handler saw half an update" : "no update was torn");
	return torn;
}
