/* A bounded queue for many producers and consumers, whose cells have sequence numbers (Vyukov). */
#include "order.h"
#include <stdatomic.h>

enum { CELLS = 32, PRODUCERS = 3, CONSUMERS = 3, ITEMS = 1000 };
static struct cell {
	atomic_long sequence;
	long item;
} cells[CELLS];
static atomic_long to_put, to_take, ended;

/* Returns the cell whose turn it is, once its sequence number is its place plus `ahead`. NULL: the
 * queue is full, or empty. */
static struct cell *claim(atomic_long *next, long ahead, long *place)
{
	*place = atomic_load_explicit(next, memory_order_relaxed);
	for (;;) {
		struct cell *cell = &cells[*place % CELLS];
		long sequence = atomic_load_explicit(&cell->sequence, memory_order_acquire);
		if (sequence < *place + ahead)
			return NULL;
		if (sequence > *place + ahead)
			*place = atomic_load_explicit(next, memory_order_relaxed);
		else if (atomic_compare_exchange_weak_explicit(next, place, *place + 1,
				 memory_order_relaxed, memory_order_relaxed))
			return cell;
	}
}

static int put(long item)
{
	long place;
	struct cell *cell = claim(&to_put, 0, &place);
	if (!cell)
		return 0;
	cell->item = item;
	atomic_store_explicit(&cell->sequence, place + 1, memory_order_release);
	return 1;
}

static int take(long *item)
{
	long place;
	struct cell *cell = claim(&to_take, 1, &place);
	if (!cell)
		return 0;
	*item = cell->item;
	atomic_store_explicit(&cell->sequence, place + CELLS, memory_order_release);
	return 1;
}

static void *work(void *argument)
{
	int thread = (int)(intptr_t)argument;
	long item, vain = 0;
	if (thread < PRODUCERS) {
		for (int i = 0; i < ITEMS; i++)
			for (; !put(thread * ITEMS + i); vain++)
				sched_yield();
		atomic_fetch_add(&ended, 1);
	} else
		for (;;) {
			int is_over = atomic_load(&ended) == PRODUCERS;
			if (take(&item))
				see(thread, (uint64_t)item);
			else if (is_over)
				break;
			else
				vain++;
		}
	see(thread, (uint64_t)vain);
	return NULL;
}

int main(void)
{
	for (int i = 0; i < CELLS; i++)
		atomic_init(&cells[i].sequence, i);
	run_threads(PRODUCERS + CONSUMERS, work);
	show_order();
	return 0;
}
