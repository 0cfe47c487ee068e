/* Memory that children do not get as it is: images are taken until the file `enough` exists. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (1UL << 20)
#define PIECES 400

static char *absent, *wiped, *shown, *both, *pieces;

static char *memory(unsigned long bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int is_there(const char *page)
{
	unsigned char core;
	return !mincore((void *)page, 4096, &core);
}

/* The child's view, as bits. */
static int seen(void)
{
	int bits = is_there(absent) | is_there(both) << 1;
	bits |= (wiped[0] != 0) << 2 | (shown[0] != 0) << 3;
	/* The middle of it was mapped anew, so the child has that. */
	return bits | is_there(absent + BYTES / 2) << 4 | is_there(pieces) << 5;
}

static void prepare(void)
{
	absent = memory(BYTES);
	wiped = memory(BYTES);
	shown = memory(BYTES);
	both = memory(BYTES);
	pieces = memory(2 * PIECES * 4096UL);
	madvise(absent, BYTES, MADV_DONTFORK);
	mmap(absent + BYTES / 2, 8192, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	madvise(wiped, BYTES, MADV_WIPEONFORK);
	madvise(shown, BYTES, MADV_DONTFORK);
	madvise(shown, BYTES, MADV_DOFORK);
	madvise(both, BYTES, MADV_WIPEONFORK);
	madvise(both, BYTES, MADV_DONTFORK);
	/* More pieces than fit for a moment, but they are neighbours. */
	for (int i = 0; i < PIECES; i++)
		madvise(pieces + i * 4096L, 4096, MADV_DONTFORK);
}

int main(void)
{
	unsigned long total = 0;
	prepare();
	for (int round = 1; access("enough", F_OK); round++) {
		int status;
		memset(absent, round, BYTES);
		memset(wiped, round | 1, BYTES);
		memset(shown, round | 1, BYTES);
		memset(both + 4096, round, 4096);
		memset(pieces, round, 4096);
		if (!fork())
			_exit(seen());
		wait(&status);
		total = total * 31 + absent[7] + wiped[9] + both[4100] + pieces[11];
		printf("round %d: %d %lx\n", round, WEXITSTATUS(status), total);
		fflush(stdout);
		usleep(3000);
	}
	printf("end %lx\n", total);
	return 4;
}
