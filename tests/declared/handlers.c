/* A handler interrupts a thread that waits in a function of the C library, and waits itself for a
 * thread that makes calls and needs the object of that function. */
#include "order.h"
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

enum { ROUNDS = 10 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t semaphore;
static atomic_int waits, handled, released;

static void handle(int signal)
{
	(void)signal;
	int round = atomic_fetch_add(&handled, 1) + 1;
	while (atomic_load_explicit(&released, memory_order_acquire) < round)
		see(1, (uint64_t)round);
}

static void *wait_each_way(void *unused)
{
	for (int round = 0; round < ROUNDS; round++) {
		atomic_fetch_add(&waits, 1);
		if (round % 2) {
			pthread_mutex_lock(&mutex);
			pthread_mutex_unlock(&mutex);
		} else
			while (sem_wait(&semaphore))
				see(1, 2);
	}
	return unused;
}

int main(void)
{
	pthread_t thread;
	struct sigaction action = {.sa_handler = handle};
	sigaction(SIGUSR1, &action, NULL);
	sem_init(&semaphore, 0, 0);
	pthread_mutex_lock(&mutex);
	pthread_create(&thread, NULL, wait_each_way, NULL);
	for (int round = 0; round < ROUNDS; round++) {
		while (atomic_load(&waits) <= round)
			sched_yield();
		if (round % 4) /* else the thread may be on its way into the function */
			usleep(2000);
		pthread_kill(thread, SIGUSR1);
		while (atomic_load(&handled) <= round)
			sched_yield();
		if (round % 2)
			pthread_mutex_unlock(&mutex);
		else
			sem_post(&semaphore);
		atomic_store_explicit(&released, round + 1, memory_order_release);
		if (round % 2 && round + 1 < ROUNDS) {
			while (atomic_load(&waits) <= round + 1)
				sched_yield();
			pthread_mutex_lock(&mutex);
		}
	}
	pthread_join(thread, NULL);
	show_order();
	return 0;
}
