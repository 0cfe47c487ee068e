/* 64 threads: each writes its own file and parts of a shared file, and makes and removes names. */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS = 64, ROUNDS = 40, BLOCK = 4096 };
static int shared;

static void *work(void *argument)
{
	long self = (long)argument;
	char name[32], other[32], block[BLOCK], again[BLOCK];
	sprintf(name, "own%ld", self);
	sprintf(other, "moved%ld", self);
	int file = open(name, O_CREAT | O_RDWR | O_TRUNC, 0640);
	assert(file >= 0);
	for (int round = 0; round < ROUNDS; round++) {
		memset(block, 'a' + (self + round) % 26, BLOCK);
		assert(write(file, block, 100 + round) == 100 + round);
		off_t at = ((off_t)round * THREADS + self) * BLOCK;
		assert(pwrite(shared, block, BLOCK, at) == BLOCK);
		assert(pread(shared, again, BLOCK, at) == BLOCK && memcmp(block, again, BLOCK) == 0);
	}
	assert(lseek(file, 0, SEEK_SET) == 0 && read(file, again, 100) == 100);
	close(file);
	if (self % 2)
		assert(rename(name, other) == 0);
	if (self % 8 == 0)
		assert(unlink(name) == 0);
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	shared = open("shared", O_CREAT | O_RDWR | O_TRUNC, 0600);
	for (long i = 0; i < THREADS; i++)
		assert(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
