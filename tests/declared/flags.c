/* Two threads answer each other through variables that are volatile, or atomic by C11: nothing in
 * the instructions shows that they synchronise. */
#include <pthread.h>
#include <stdio.h>

#define ROUNDS 300

static volatile int ready, data[100];
static _Atomic int waited;
static volatile double sum;
static struct {
	volatile unsigned turn : 4;
	volatile short round;
} *volatile shared, place;

static void *answer(void *unused)
{
	for (int round = 0; round < ROUNDS; round++) {
		while (ready != round)
			waited = waited + 1;
		data[round % 100] = round;
		sum += round * 0.5;
		shared->turn++;
		shared->round = (short)round;
		ready = -round - 1;
		while (ready == -round - 1)
			;
	}
	return unused;
}

int main(void)
{
	pthread_t thread;
	unsigned long hash = 0;
	shared = &place;
	pthread_create(&thread, NULL, answer, NULL);
	for (int round = 0; round < ROUNDS; round++) {
		while (ready != -round - 1)
			hash++;
		hash = hash * 31 + data[round % 100] + shared->turn + shared->round;
		ready = round + 1;
	}
	pthread_join(thread, NULL);
	printf("%lx %d %.1f\n", hash, waited, sum);
	return 0;
}
