/* A process that runs on: threads that read noise, brief threads, brief processes. It prints a line
 * each round, until the file `enough` exists. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long total;
static volatile int done;
int rounds;

static void *reads_noise(void *unused)
{
	static __thread unsigned char noise[4096];
	int source = open("/dev/urandom", O_RDONLY);
	while (!done) {
		if (read(source, noise, sizeof noise) != sizeof noise)
			abort();
		pthread_mutex_lock(&lock);
		for (unsigned i = 0; i < sizeof noise; i++)
			total = total * 31 + noise[i];
		pthread_mutex_unlock(&lock);
		usleep(500);
	}
	return unused;
}

static void *brief(void *unused)
{
	getppid();
	return unused;
}

__attribute__((noinline)) void next_round(int number) { rounds = number; }

int main(void)
{
	pthread_t readers[2], one;
	for (int i = 0; i < 2; i++)
		pthread_create(&readers[i], NULL, reads_noise, NULL);
	for (int number = 1; access("enough", F_OK); number++) {
		next_round(number);
		pthread_create(&one, NULL, brief, NULL);
		pthread_join(one, NULL);
		if (!fork())
			_exit(number % 7);
		wait(NULL);
		pthread_mutex_lock(&lock);
		printf("round %d: %lx\n", number, total);
		fflush(stdout);
		pthread_mutex_unlock(&lock);
		usleep(20000);
	}
	done = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(readers[i], NULL);
	printf("total %lx\n", total);
	return 7;
}
