/* Five threads on one of the C library's spin locks: they wait without the kernel, by plain loads
 * in the library. */
#include "order.h"

enum { THREADS = 5, ROUNDS = 800 };
static pthread_spinlock_t lock;
static uint64_t number;

static void *work(void *argument)
{
	int thread = (int)(intptr_t)argument;
	for (int round = 0; round < ROUNDS; round++) {
		if (round % 5 == 0) {
			int busy = pthread_spin_trylock(&lock);
			see(thread, (uint64_t)busy);
			if (busy)
				continue;
		} else
			pthread_spin_lock(&lock);
		see(thread, ++number);
		pthread_spin_unlock(&lock);
	}
	return NULL;
}

int main(void)
{
	pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE);
	run_threads(THREADS, work);
	show_order();
	return 0;
}
