// Two threads wait for each other without a system call, and never end by themselves.
#include <pthread.h>
#include <unistd.h>

static volatile long turns[2];

static void *spin(void *which)
{
	long own = (long)which;
	for (;;)
		turns[own]++;
	return NULL;
}

int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, spin, (void *)1);
	write(1, "ready\n", 6);
	spin((void *)0);
	return 0;
}
