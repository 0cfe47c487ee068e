/* Threads that compute in rounds which are all the same but for a word that changes seldom: a
 * buffer is filled again and again, and another word counts how often. Another thread reads it. */
// stdout: ^(\d+ \d+ \d+\n){25}ok\n$
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MOST 256

struct ring {
	volatile unsigned size, next;
	volatile unsigned long entries[MOST];
	/* Not beside the words that change in each round. */
	volatile unsigned long *rounds;
};

static volatile int stop;

__attribute__((noinline)) static void begin_again(struct ring *ring)
{
	for (unsigned i = 0; i < ring->size; i++)
		ring->entries[i] = 0;
	ring->next = 0;
	++*ring->rounds;
}

__attribute__((noinline)) static void put(struct ring *ring, unsigned long value)
{
	unsigned next = ring->next;
	ring->entries[next] = value;
	ring->next = next + 1;
	if (next + 1 == ring->size)
		begin_again(ring);
}

static void *compute(void *ring)
{
	while (!stop) {
		put(ring, 1);
		put(ring, 2);
	}
	return NULL;
}

int main(void)
{
	static struct ring rings[3];
	pthread_t threads[3];
	for (int i = 0; i < 3; i++) {
		rings[i].size = MOST >> (2 * i);
		rings[i].rounds = aligned_alloc(4096, 4096);
		*rings[i].rounds = 0;
		pthread_create(&threads[i], NULL, compute, &rings[i]);
	}
	for (int i = 0; i < 25; i++) {
		usleep(3000);
		printf("%lu %lu %lu\n", *rings[0].rounds, *rings[1].rounds, *rings[2].rounds);
	}
	stop = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	puts("ok");
	return 0;
}
