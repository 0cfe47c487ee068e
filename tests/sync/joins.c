/* Threads use atomic instructions and locks. Meanwhile one of them shares memory with a child,
 * which uses it, too. */
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 3
#define ROUNDS 4000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long count, kept, seen[THREADS];
static unsigned long *shared;

static unsigned long next(unsigned long *counter)
{
	return __atomic_fetch_add(counter, 1, __ATOMIC_SEQ_CST);
}

static void share(void)
{
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (fork() == 0) {
		for (int round = 0; round < ROUNDS; round++)
			next(shared);
		_exit(0);
	}
	for (int round = 0; round < ROUNDS; round++)
		seen[0] = seen[0] * 31 + next(shared);
	wait(NULL);
}

static void *work(void *argument)
{
	long id = (long)argument;
	for (int round = 0; round < ROUNDS; round++) {
		seen[id] = seen[id] * 31 + next(&count);
		pthread_mutex_lock(&lock);
		kept = kept * 7 + (unsigned long)id;
		seen[id] ^= kept;
		pthread_mutex_unlock(&lock);
		if (id == 0 && round == ROUNDS / 2)
			share();
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	for (long id = 0; id < THREADS; id++)
		pthread_create(&threads[id], NULL, work, (void *)id);
	for (int id = 0; id < THREADS; id++)
		pthread_join(threads[id], NULL);
	for (int id = 0; id < THREADS; id++)
		printf("%lx\n", seen[id]);
	printf("%lu %lu\n", count, *shared);
	return 0;
}
