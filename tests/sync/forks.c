/* A process forks while its other threads run. Its children have their memory as it is at that
 * moment. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3, ROUNDS = 5000, FORKS = 10 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long sum;

static void *work(void *number)
{
	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&lock);
		sum = sum * 31 + (unsigned long)number;
		void *block = malloc(16 + (sum & 63));
		pthread_mutex_unlock(&lock);
		free(block);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	int statuses = 0;
	for (unsigned long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)(i + 1));
	for (int i = 0; i < FORKS; i++) {
		int status;
		pid_t child = fork();
		if (child == 0)
			_exit(i & 7);
		waitpid(child, &status, 0);
		statuses = statuses * 3 + WEXITSTATUS(status);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%lx %d\n", sum, statuses);
	return 0;
}
