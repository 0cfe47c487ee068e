/* A stack without locks, whose nodes are protected by hazard pointers: threads free nodes of other
 * threads, once no thread reads them. */
#include "order.h"
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 600, KEPT = 64 };
struct node {
	struct node *next;
	long value;
};
static _Atomic(struct node *) top, hazards[THREADS];
static atomic_int ready;
static __thread struct node *retired[KEPT];
static __thread int retired_count;

static int is_looked_at(const struct node *node)
{
	for (int i = 0; i < THREADS; i++)
		if (atomic_load(&hazards[i]) == node)
			return 1;
	return 0;
}

static void free_retired(void)
{
	int kept = 0;
	for (int i = 0; i < retired_count; i++) {
		if (is_looked_at(retired[i]))
			retired[kept++] = retired[i];
		else
			free(retired[i]);
	}
	retired_count = kept;
}

static void push(int thread, long value)
{
	struct node *node = malloc(sizeof *node + (size_t)(value % 5) * 16);
	node->value = value;
	node->next = atomic_load_explicit(&top, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&top, &node->next, node))
		see(thread, 1);
}

static struct node *pop(int thread)
{
	for (;;) {
		struct node *node = atomic_load(&top), *expected = node;
		if (!node)
			return NULL;
		atomic_store(&hazards[thread], node);
		if (atomic_load(&top) == node &&
			atomic_compare_exchange_strong(&top, &expected, node->next))
			return node;
		see(thread, 2);
	}
}

static void *work(void *argument)
{
	int thread = (int)(intptr_t)argument;
	atomic_fetch_add(&ready, 1);
	while (atomic_load(&ready) < THREADS)
		sched_yield();
	for (int round = 0; round < ROUNDS; round++) {
		push(thread, thread * ROUNDS + round);
		struct node *node = pop(thread);
		if (!node)
			continue;
		see(thread, (uint64_t)node->value);
		atomic_store_explicit(&hazards[thread], NULL, memory_order_release);
		retired[retired_count++] = node;
		if (retired_count == KEPT)
			free_retired();
	}
	return NULL;
}

int main(void)
{
	run_threads(THREADS, work);
	show_order();
	return 0;
}
