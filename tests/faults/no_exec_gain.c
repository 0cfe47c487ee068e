/* Writable memory never becomes executable (prctl PR_SET_MDWE, which systemd's
 * MemoryDenyWriteExecute= sets): in this program and in the one that it executes, which inherits
 * it. Both read the clock through the vDSO. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { SET = 65, GET = 66, REFUSE_GAIN = 1 };

static void *sum(void *argument)
{
	unsigned long hash = 1;
	for (long i = 0; i < 30000000; i++)
		hash = hash * 6364136223846793005UL + i;
	*(unsigned long *)argument = hash;
	return NULL;
}

int main(int count, char **arguments)
{
	struct timespec now;
	pthread_t thread;
	unsigned long result = 0;
	if (prctl(SET, REFUSE_GAIN, 0, 0, 0))
		perror("prctl");
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int denied = mprotect(page, 4096, PROT_READ | PROT_EXEC) ? errno : 0;
	pthread_create(&thread, NULL, sum, &result);
	for (int i = 0; i < 5; i++)
		usleep(2000);
	pthread_join(thread, NULL);
	clock_gettime(CLOCK_REALTIME, &now);
	printf("%d: %d, mprotect %d, %lx, %ld.%09ld\n", count, prctl(GET, 0, 0, 0, 0), denied,
		result, (long)now.tv_sec, now.tv_nsec);
	fflush(stdout);
	if (count < 3) {
		char *again[] = {arguments[0], "again", count > 1 ? "and again" : NULL, NULL};
		execv("/proc/self/exe", again);
	}
	return 0;
}
