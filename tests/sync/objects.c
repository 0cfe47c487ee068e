/* Four threads use every kind of object that the C library orders by itself: mutexes side by side,
 * trylock, read-write locks, semaphores, barriers, condition waits that time out. They print what
 * they saw: another order would show. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define THREADS 4
#define ROUNDS 2000

static pthread_mutex_t locks[THREADS] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
	PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_mutex_t robust, recursive;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t shared_lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t places;
static long values[THREADS], shared_value, kept;
static unsigned long seen[THREADS];

static void see(long id, unsigned long what) { seen[id] = seen[id] * 31 + what; }

static void use_locks(long id, int which)
{
	pthread_mutex_lock(&locks[which]);
	values[which] = values[which] * 7 + id;
	see(id, (unsigned long)values[which]);
	pthread_mutex_unlock(&locks[which]);
	pthread_mutex_t *next = &locks[(which + 1) % THREADS];
	int refused = pthread_mutex_trylock(next);
	see(id, refused ? 99 : (unsigned long)values[(which + 1) % THREADS]);
	if (!refused)
		pthread_mutex_unlock(next);
}

static void use_special_locks(long id)
{
	pthread_mutex_lock(&recursive);
	pthread_mutex_lock(&robust);
	pthread_mutex_lock(&recursive);
	kept = kept * 3 + id;
	see(id, (unsigned long)kept);
	pthread_mutex_unlock(&recursive);
	pthread_mutex_unlock(&robust);
	pthread_mutex_unlock(&recursive);
}

static void wait_a_little(long id)
{
	struct timespec until;
	pthread_mutex_lock(&locks[0]);
	if (id == 0)
		pthread_cond_broadcast(&changed);
	else {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 200000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		see(id, pthread_cond_timedwait(&changed, &locks[0], &until) != 0);
	}
	pthread_mutex_unlock(&locks[0]);
}

static void use_shared_lock(long id, int round)
{
	if (round % 49 == id) {
		pthread_rwlock_wrlock(&shared_lock);
		shared_value = shared_value * 5 + id;
	} else
		pthread_rwlock_rdlock(&shared_lock);
	see(id, (unsigned long)shared_value);
	pthread_rwlock_unlock(&shared_lock);
}

static void *work(void *argument)
{
	long id = (long)argument;
	unsigned long random = (unsigned long)id + 1;
	for (int round = 0; round < ROUNDS; round++) {
		random = random * 6364136223846793005UL + 1;
		use_locks(id, (int)(random >> 62));
		if (round % 5 == 0)
			use_special_locks(id);
		if (round % 7 == 0)
			use_shared_lock(id, round);
		if (round % 20 == 0) {
			sem_wait(&places);
			see(id, (unsigned long)round);
			sem_post(&places);
		}
		if (round % 64 == 0) {
			void *memory = malloc(random % 1000);
			see(id, (unsigned long)memory);
			free(memory);
		}
		if (round % 100 == 50)
			wait_a_little(id);
		if (round % 500 == 0)
			pthread_barrier_wait(&barrier);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	pthread_mutexattr_t kind;
	pthread_mutexattr_init(&kind);
	pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&robust, &kind);
	pthread_mutexattr_init(&kind);
	pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&recursive, &kind);
	pthread_barrier_init(&barrier, NULL, THREADS);
	sem_init(&places, 0, 2);
	for (long id = 0; id < THREADS; id++)
		pthread_create(&threads[id], NULL, work, (void *)id);
	for (int id = 0; id < THREADS; id++)
		pthread_join(threads[id], NULL);
	for (int id = 0; id < THREADS; id++)
		printf("%lx %lx\n", seen[id], (unsigned long)values[id]);
	return 0;
}
