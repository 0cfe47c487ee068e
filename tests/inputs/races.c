/* Files that change while they are read.
 *
 * `races read ROUNDS SEED` makes a new file each round, reads pieces of it and prints a hash of
 * them, while its children do to the file anything that may be done to a file. `races write` does
 * the same to the file until it is killed: it is started outside the recording. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 0x110000UL
#define MOST 0x18000UL
#define NAME "raced"

static uint64_t state;
static int is_stranger;

static uint64_t draw(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

static void fill(uint64_t *words, uint64_t bytes, uint64_t seed)
{
	for (uint64_t i = 0; i < bytes / 8; i++)
		words[i] = (i + seed) * 0x9e3779b97f4a7c15UL;
}

static void fresh(const char *name, uint64_t seed)
{
	static uint64_t words[BYTES / 8];
	int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	fill(words, BYTES, seed);
	if (file < 0 || write(file, words, BYTES) != BYTES || close(file))
		exit(2);
}

static void store(int file)
{
	uint64_t at = draw(BYTES / 8192) * 4096; /* whatever was cut out of the file */
	volatile uint64_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, at);
	close(file);
	if (page == MAP_FAILED)
		return;
	for (uint64_t i = 0; i < 200 && ftruncate(-1, 0); i++)
		page[draw(512)] = draw(~0UL);
	munmap((void *)page, 4096);
}

static void put(int file)
{
	static uint64_t words[0x1000];
	for (uint64_t i = 0; i < 10; i++) {
		fill(words, sizeof words, draw(~0UL));
		if (pwrite(file, words, sizeof words, draw(BYTES)) < 0)
			break;
	}
	close(file);
}

/* Does one possible thing to a file, by its name. */
static void attack(void)
{
	char other[32];
	int file;
	usleep(draw(3000));
	switch (draw(8)) {
	case 0:
		/* Files that processes outside the recording write to while they are mapped cannot
		 * be stored. */
		if (is_stranger && (file = open(NAME, O_RDWR)) >= 0)
			store(file);
		break;
	case 1:
		if ((file = open(NAME, O_WRONLY)) >= 0)
			put(file);
		break;
	case 2:
		if ((file = open(NAME, O_WRONLY | O_NONBLOCK)) >= 0)
			put(file);
		break;
	case 3:
		if ((file = open(NAME, O_WRONLY | O_APPEND)) >= 0)
			put(file);
		break;
	case 4:
		snprintf(other, sizeof other, "other-%d", getpid());
		fresh(other, draw(~0UL));
		rename(other, NAME);
		break;
	case 5:
		if ((file = open(NAME, O_RDWR)) >= 0) {
			fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, draw(BYTES), draw(BYTES));
			close(file);
		}
		break;
	case 6:
		if ((file = open(NAME, O_RDWR)) >= 0) {
			fallocate(file, FALLOC_FL_COLLAPSE_RANGE, draw(200) * 4096, 4096);
			close(file);
		}
		break;
	case 7: unlink(NAME); break;
	}
}

/* Makes mappings fail, so that no other code maps. */
static void cut(void)
{
	usleep(draw(3000));
	switch (draw(3)) {
	case 0:
		if (truncate(NAME, draw(BYTES)) == 0 && draw(2))
			truncate(NAME, BYTES);
		break;
	case 1: close(open(NAME, O_WRONLY | O_TRUNC)); break;
	case 2: close(open(NAME, O_RDONLY | O_TRUNC)); break;
	}
}

static uint64_t hash(uint64_t before, const void *bytes, uint64_t count)
{
	const unsigned char *byte = bytes;
	for (uint64_t i = 0; i < count; i++)
		before = (before ^ byte[i]) * 0x100000001b3UL;
	return before;
}

static uint64_t read_piece(int file, uint64_t before)
{
	static char buffer[MOST];
	uint64_t count = draw(4) ? 0x4000 + draw(MOST - 0x4000) : draw(0x8000), at = draw(BYTES);
	struct iovec pieces[2] = {{buffer, count / 3}, {buffer + count / 3, count - count / 3}};
	ssize_t got = 0;
	switch (draw(5)) {
	case 0: got = pread(file, buffer, count, at); break;
	case 1: got = preadv(file, pieces, 2, at); break;
	case 2: got = readv(file, pieces, 2); break;
	case 3: lseek(file, at, SEEK_SET); /* fall through */
	case 4: got = read(file, buffer, count); break;
	}
	return got > 0 ? hash(before, buffer, got) : before;
}

static pid_t start(void (*action)(void), int attackers)
{
	pid_t child = fork();
	if (child)
		return child;
	state ^= getpid() * 0x9e3779b97f4a7c15UL;
	for (int i = 0; i < attackers; i++)
		action();
	_exit(0);
}

static void round_of(int number)
{
	uint64_t sum = 0xcbf29ce484222325UL;
	fresh("next", number % 3);
	if (rename("next", NAME))
		exit(2);
	int file = open(NAME, O_RDONLY);
	if (file < 0)
		return; /* another process was faster */
	sum = read_piece(file, sum);
	pid_t child = 0;
	switch (draw(4)) {
	case 0: child = start(cut, 1); break;
	case 1: break; /* only processes outside the recording */
	default: child = start(attack, 1);
	}
	for (uint64_t i = 0, count = 4 + draw(30); i < count; i++)
		sum = read_piece(file, sum);
	close(file);
	if (child && waitpid(child, NULL, 0) != child)
		exit(2);
	printf("%d %016lx\n", number, sum);
	fflush(stdout);
}

int main(int count, char **words)
{
	state = count > 3 ? strtoul(words[3], NULL, 0) : 88172645463325252UL ^ getpid();
	is_stranger = count > 1 && !strcmp(words[1], "write");
	if (is_stranger)
		for (pid_t parent = getppid(), child; getppid() == parent;) {
			draw(2);
			/* A process that has mapped the removed part dies of it. */
			if ((child = start(attack, 4)) > 0)
				waitpid(child, NULL, 0);
		}
	for (int i = 0; count > 2 && i < atoi(words[2]); i++)
		round_of(i);
	return 0;
}
