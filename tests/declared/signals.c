/* Signals reach threads that make no calls: they count and wait by atomic instructions. Handlers
 * count, too. In the end the threads are cancelled wherever they are. */
#include "order.h"
#include <signal.h>
#include <stdatomic.h>

enum { THREADS = 3, SIGNALS = 9, LEAST = 1000 };
static atomic_long number, handled, own[THREADS];
static __thread int self;
/* Written before a signal, and read by its handler. */
static long message;

static void handle(int signal)
{
	(void)signal;
	see(self, (uint64_t)message);
	see(self, (uint64_t)atomic_load(&number));
	see(self, (uint64_t)atomic_fetch_add(&handled, 1));
}

static void *count(void *argument)
{
	self = (int)(intptr_t)argument;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (;;) {
		atomic_fetch_add(&number, 1);
		atomic_fetch_add(&own[self], 1);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	struct sigaction action = {.sa_handler = handle};
	sigaction(SIGUSR1, &action, NULL);
	for (intptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, count, (void *)i);
	for (int i = 0; i < SIGNALS; i++) {
		while (atomic_load(&own[i % THREADS]) < LEAST)
			sched_yield();
		long before = atomic_load(&handled);
		message = i;
		pthread_kill(threads[i % THREADS], SIGUSR1);
		while (atomic_load(&handled) == before)
			sched_yield();
	}
	for (int i = 0; i < THREADS; i++)
		pthread_cancel(threads[i]);
	for (int i = 0; i < THREADS; i++) {
		void *result;
		pthread_join(threads[i], &result);
		see(i, result == PTHREAD_CANCELED);
		see(i, (uint64_t)atomic_load(&own[i]));
	}
	show_order();
	return 0;
}
