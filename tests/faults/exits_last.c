/* A process is killed whose last event is the exit of a thread. In a replay, its other thread is at
 * its end long before this one. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void *computes(void *argument)
{
	for (volatile long i = 0; i < 100000000; i++)
		;
	return argument;
}

static int count_threads(int pid)
{
	char name[64], line[256];
	int count = 0;
	snprintf(name, sizeof name, "/proc/%d/status", pid);
	FILE *file = fopen(name, "r");
	while (file && fgets(line, sizeof line, file))
		sscanf(line, "Threads: %d", &count);
	if (file)
		fclose(file);
	return count;
}

/* Kills its parent when that has one thread left. */
static int kills_parent(int ready)
{
	char byte;
	int parent = getppid();
	if (read(ready, &byte, 1) != 1)
		return 9;
	for (int look = 0; look < 20000 && count_threads(parent) != 1; look++)
		usleep(1000);
	return kill(parent, SIGKILL);
}

int main(void)
{
	int ready[2];
	pthread_t thread;
	if (pipe(ready))
		return 9;
	if (!fork())
		return kills_parent(ready[0]);
	if (pthread_create(&thread, NULL, computes, NULL) || write(ready[1], "x", 1) != 1)
		return 9;
	for (;;)
		pause();
}
