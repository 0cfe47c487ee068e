/* Memory that is mapped shared, with two threads and short-lived children: images are taken until
 * the file `enough` exists. All views must show the same, wherever replay begins. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 16384

static volatile long *nameless, *first, *second;
static volatile int done;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long wrong;

static volatile long *map(int file)
{
	int flags = MAP_SHARED | (file < 0 ? MAP_ANONYMOUS : 0);
	void *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, flags, file, 0);
	if (at == MAP_FAILED)
		exit(9);
	return at;
}

static void *adds(void *argument)
{
	while (!done) {
		pthread_mutex_lock(&lock);
		nameless[1]++;
		first[1] += nameless[1];
		wrong += second[1] != first[1];
		pthread_mutex_unlock(&lock);
		usleep(300);
	}
	return argument;
}

/* A child changes the memory, and its parent sees that. */
static void ask_child(long round)
{
	long before = nameless[2], status = 0;
	int child = fork();
	if (!child) {
		nameless[2] += round;
		second[2] = nameless[2];
		_exit(0);
	}
	waitpid(child, (int *)&status, 0);
	wrong += child < 0 || status || nameless[2] != before + round || first[2] != nameless[2];
}

int main(void)
{
	pthread_t thread;
	long word;
	int file = open("shared", O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (file < 0 || ftruncate(file, BYTES))
		return 9;
	nameless = map(-1);
	first = map(file);
	second = map(file);
	pthread_create(&thread, NULL, adds, NULL);
	for (long round = 1; access("enough", F_OK) && round < 1000000; round++) {
		word = round * 3;
		wrong += pwrite(file, &word, sizeof word, 80) != sizeof word;
		wrong += first[10] != word || second[10] != word;
		volatile long *third = map(file);
		third[11] = round;
		wrong += first[11] != round;
		munmap((void *)third, BYTES);
		for (volatile int wait = 0; wait < 200000; wait++)
			;
		if (round % 50 == 0)
			ask_child(round);
		if (round % 25 == 0) {
			pthread_mutex_lock(&lock);
			printf("round %ld: %ld %ld %ld\n", round, nameless[1], first[1],
				nameless[2]);
			fflush(stdout);
			pthread_mutex_unlock(&lock);
		}
		usleep(500);
	}
	done = 1;
	pthread_join(thread, NULL);
	printf("shares ends: %ld wrong, %ld %ld\n", wrong, first[1], second[2]);
	return 6;
}
