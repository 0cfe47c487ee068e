/* Read-copy-update by epochs: a writer replaces data, and overwrites the old data once no reader
 * can have it. */
#include "order.h"
#include <stdatomic.h>

enum { THREADS = 4, VERSIONS = 150 };
struct data {
	long value, negated;
};
static _Atomic(struct data *) current;
static atomic_long epoch, entered[THREADS];
static atomic_int ready, ended;

static void await_readers(void)
{
	long last = atomic_fetch_add(&epoch, 1);
	for (int i = 1; i < THREADS; i++)
		for (;;) {
			long since = atomic_load(&entered[i]);
			if (!(since & 1) || since / 2 > last)
				break;
			sched_yield();
		}
}

static void replace_all(void)
{
	for (long i = 1; i <= VERSIONS; i++) {
		struct data *fresh = malloc(sizeof *fresh);
		*fresh = (struct data){i, -i};
		struct data *old = atomic_exchange(&current, fresh);
		await_readers();
		*old = (struct data){-1, -1};
		free(old);
	}
	atomic_store(&ended, 1);
}

static void *work(void *argument)
{
	int thread = (int)(intptr_t)argument;
	atomic_fetch_add(&ready, 1);
	while (atomic_load(&ready) < THREADS)
		sched_yield();
	if (!thread) {
		replace_all();
		return NULL;
	}
	while (!atomic_load_explicit(&ended, memory_order_acquire)) {
		atomic_store(&entered[thread], atomic_load(&epoch) * 2 + 1);
		struct data *data = atomic_load_explicit(&current, memory_order_consume);
		see(thread, (uint64_t)data->value);
		if (data->value + data->negated)
			abort();
		atomic_store_explicit(&entered[thread], 0, memory_order_release);
	}
	return NULL;
}

int main(void)
{
	atomic_init(&current, calloc(1, sizeof(struct data)));
	run_threads(THREADS, work);
	show_order();
	return 0;
}
