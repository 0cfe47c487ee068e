/* Threads that wait in many ways, compute, or live for a moment: images are taken until the file
 * `enough` exists. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static sem_t given;
static int ends[2];
static int turn;
static long total;
static volatile int done;
static __thread double own = 1.5;

static void *takes_turns(void *argument)
{
	long id = (long)argument;
	double value = id + 0.25;
	for (int round = 0; !done; round++) {
		pthread_mutex_lock(&lock);
		while (turn % 3 != id && !done)
			pthread_cond_wait(&changed, &lock);
		turn++;
		total += id * round;
		value = value * 1.0001 + round;
		own += value;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
		for (volatile int wait = 0; wait < 5000; wait++)
			;
		if (round % 200 == 0) {
			printf("thread %ld: %d %f\n", id, round, value);
			fflush(stdout);
		}
	}
	printf("thread %ld ends: %f %f\n", id, value, own);
	return NULL;
}

static void *computes(void *argument)
{
	unsigned long value = 1;
	float other = 1;
	while (!done) {
		value = value * 3 + 1;
		other = other * 1.0001f + (value & 1);
	}
	*(float *)argument = other;
	return NULL;
}

static void *waits_for_semaphore(void *argument)
{
	while (!done)
		sem_wait(&given);
	return argument;
}

static void *reads(void *argument)
{
	char byte;
	long count = 0;
	while (read(ends[0], &byte, 1) == 1)
		count++;
	printf("%ld read\n", count);
	return argument;
}

static void *polls(void *argument)
{
	struct epoll_event event;
	int set = epoll_create1(0);
	while (!done)
		epoll_wait(set, &event, 1, 5);
	return argument;
}

static void *sleeps(void *argument)
{
	struct timespec time = {0, 7000000};
	while (!done)
		nanosleep(&time, NULL);
	return argument;
}

static void *ends_at_once(void *argument) { return argument; }

/* This thread goes on after the first thread has ended. */
static void *outlives(void *argument)
{
	pthread_join(*(pthread_t *)argument, NULL);
	usleep(20000);
	printf("end %d\n", turn != 0);
	exit(5);
}

int main(void)
{
	static void *(*const kinds[])(void *) = {waits_for_semaphore, reads, polls, sleeps};
	static pthread_t first, last, threads[8];
	static float computed;
	int count = 0;
	if (pipe(ends) || sem_init(&given, 0, 0))
		return 9;
	for (long i = 0; i < 3; i++)
		pthread_create(&threads[count++], NULL, takes_turns, (void *)i);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[count++], NULL, kinds[i], NULL);
	pthread_create(&threads[count++], NULL, computes, &computed);
	for (int i = 0; access("enough", F_OK) && i < 1000000; i++) {
		pthread_t brief;
		pthread_create(&brief, NULL, ends_at_once, NULL);
		pthread_join(brief, NULL);
		if (write(ends[1], "x", 1) != 1)
			return 9;
		sem_post(&given);
		usleep(500);
	}
	pthread_mutex_lock(&lock);
	done = 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	sem_post(&given);
	close(ends[1]);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("total %ld %f\n", total, computed);
	first = pthread_self();
	pthread_create(&last, NULL, outlives, &first);
	pthread_exit(NULL);
}
