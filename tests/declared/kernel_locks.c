/* Threads die while they own a mutex, and the kernel writes to it then. */
#define _GNU_SOURCE
#include "order.h"
#include <errno.h>

static pthread_mutex_t robust;

static void *die(void *argument)
{
	int thread = (int)(intptr_t)argument, result;
	while ((result = pthread_mutex_trylock(&robust)) == EBUSY)
		sched_yield();
	see(thread, (uint64_t)result);
	if (result == EOWNERDEAD)
		pthread_mutex_consistent(&robust);
	return NULL;
}

int main(void)
{
	pthread_mutexattr_t attributes;
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&robust, &attributes);
	run_threads(6, die);
	show_order();
	return 0;
}
