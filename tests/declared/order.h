/* Threads that keep a hash of all they see, and a program that prints it. The output depends on the
 * order in which the threads ran. */
#ifndef ORDER_H
#define ORDER_H
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_THREADS 8

static uint64_t seen[MOST_THREADS];

static inline uint64_t mixed(uint64_t hash, uint64_t value)
{
	return (hash ^ value) * 0x100000001b3 + (hash >> 29);
}

static inline void see(int thread, uint64_t value) { seen[thread] = mixed(seen[thread], value); }

/* The argument of `thread` is the thread's number. */
static inline void run_threads(int count, void *(*thread)(void *))
{
	pthread_t threads[MOST_THREADS];
	for (intptr_t i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, thread, (void *)i);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static inline void show_order(void)
{
	uint64_t hash = 0;
	for (int i = 0; i < MOST_THREADS; i++)
		hash = mixed(hash, seen[i]);
	printf("%016llx\n", (unsigned long long)hash);
}

#endif
