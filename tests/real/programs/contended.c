/* Four threads take turns by a condition variable, contend for a lock, and race on memory beside
 * it. Their result depends on every hand-over. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { THREADS = 4, ROUNDS = 400, RACES = 200, WORDS = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static volatile uint64_t racy[WORDS];
static uint64_t order;
static int waiting;

static void *work(void *argument)
{
	uint64_t own = (uintptr_t)argument;
	for (int round = 0; round < ROUNDS; round++) {
		pthread_mutex_lock(&lock);
		order = order * 31 + own;
		if (waiting < THREADS - 1 && order % 3 == 0) {
			waiting++;
			pthread_cond_wait(&changed, &lock);
			waiting--;
		} else if (waiting) {
			pthread_cond_signal(&changed);
		}
		pthread_mutex_unlock(&lock);
		for (int race = 0; race < RACES; race++)
			racy[(order + (uint64_t)race) % WORDS] = racy[(uint64_t)race] * 31 + own;
	}
	pthread_mutex_lock(&lock);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void *release_all(void *argument)
{
	int *ended = argument;
	while (!__atomic_load_n(ended, __ATOMIC_ACQUIRE)) {
		struct timespec pause = { 0, 1000000 };
		nanosleep(&pause, NULL);
		pthread_cond_broadcast(&changed);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS], helper;
	int ended = 0;
	pthread_create(&helper, NULL, release_all, &ended);
	for (uintptr_t index = 0; index < THREADS; index++)
		pthread_create(&threads[index], NULL, work, (void *)(index + 1));
	for (int index = 0; index < THREADS; index++)
		pthread_join(threads[index], NULL);
	__atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
	pthread_join(helper, NULL);
	uint64_t sum = 0;
	for (int word = 0; word < WORDS; word++)
		sum = sum * 31 + racy[word];
	printf("order %016lx, left %016lx\n", order, sum);
	return 0;
}
