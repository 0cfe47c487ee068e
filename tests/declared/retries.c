/* Threads count how often their compare-and-exchange fails, and remember the values they found. */
#include "order.h"
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 5000 };
static atomic_long number;
static atomic_int ready;
static __int128 wide __attribute__((aligned(16)));

/* 16 bytes have no other instruction. */
static void exchange_wide(int thread)
{
	__int128 found = __sync_val_compare_and_swap(&wide, 0, 0), expected;
	do {
		expected = found;
		see(thread, (uint64_t)(found >> 64));
		found = __sync_val_compare_and_swap(
			&wide, expected, expected + ((__int128)(thread + 1) << 64) + 1);
	} while (found != expected);
}

static void *count(void *argument)
{
	int thread = (int)(intptr_t)argument;
	long failures = 0;
	atomic_fetch_add(&ready, 1);
	while (atomic_load(&ready) < THREADS)
		sched_yield();
	for (int round = 0; round < ROUNDS; round++) {
		long found = atomic_load_explicit(&number, memory_order_relaxed);
		while (!atomic_compare_exchange_weak(&number, &found, found * 3 + 1))
			failures++;
		see(thread, (uint64_t)found);
		exchange_wide(thread);
	}
	see(thread, (uint64_t)failures);
	return NULL;
}

int main(void)
{
	run_threads(THREADS, count);
	show_order();
	return 0;
}
