/* A work-stealing deque (Chase and Lev): its owner takes from one end, other threads steal from the
 * other. Fences order its relaxed accesses. */
#include "order.h"
#include <stdatomic.h>

enum { THREADS = 4, SLOTS = 4096, ITEMS = 3000 };
static atomic_long top, bottom, slots[SLOTS];
static atomic_int ended;

static void push(long item)
{
	long last = atomic_load_explicit(&bottom, memory_order_relaxed);
	atomic_store_explicit(&slots[last % SLOTS], item, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&bottom, last + 1, memory_order_relaxed);
}

static long take(void)
{
	long last = atomic_load_explicit(&bottom, memory_order_relaxed) - 1, item = -1;
	atomic_store_explicit(&bottom, last, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	long first = atomic_load_explicit(&top, memory_order_relaxed);
	if (first < last)
		return atomic_load_explicit(&slots[last % SLOTS], memory_order_relaxed);
	if (first == last) {
		item = atomic_load_explicit(&slots[last % SLOTS], memory_order_relaxed);
		if (!atomic_compare_exchange_strong(&top, &first, first + 1))
			item = -1;
	}
	atomic_store_explicit(&bottom, last + 1, memory_order_relaxed);
	return item;
}

static long steal(void)
{
	long first = atomic_load_explicit(&top, memory_order_acquire);
	atomic_thread_fence(memory_order_seq_cst);
	if (first >= atomic_load_explicit(&bottom, memory_order_acquire))
		return -1;
	long item = atomic_load_explicit(&slots[first % SLOTS], memory_order_relaxed);
	return atomic_compare_exchange_strong(&top, &first, first + 1) ? item : -2;
}

static void *work(void *argument)
{
	int thread = (int)(intptr_t)argument;
	if (thread)
		while (!atomic_load_explicit(&ended, memory_order_acquire))
			see(thread, (uint64_t)steal());
	else
		for (int i = 0; i < ITEMS; i++) {
			push(i);
			if (i % 3 == 2)
				see(thread, (uint64_t)take());
		}
	if (!thread)
		atomic_store_explicit(&ended, 1, memory_order_release);
	return NULL;
}

int main(void)
{
	run_threads(THREADS, work);
	show_order();
	return 0;
}
