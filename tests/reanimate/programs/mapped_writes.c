/* Writes files through mappings only: with and without msync, from a child, over a mapping that is
 * then enlarged, by a process that is killed. */
#define _GNU_SOURCE
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static char *map(const char *name, size_t size, int *file)
{
	*file = open(name, O_CREAT | O_RDWR, 0644);
	assert(*file >= 0 && ftruncate(*file, size) == 0);
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *file, 0);
	assert(memory != MAP_FAILED);
	return memory;
}

int main(void)
{
	int file;
	size_t size = 3 << 20;
	char *memory = map("random", size, &file);
	srandom(1);
	for (int i = 0; i < 20000; i++)
		memory[random() % size] = (char)random();
	assert(msync(memory, size, MS_SYNC) == 0);
	for (int i = 0; i < 1000; i++)
		memory[random() % size] = (char)random();
	char bytes[4096];
	for (off_t at = 0; at < (off_t)size; at += sizeof bytes)
		assert(pread(file, bytes, sizeof bytes, at) == sizeof bytes && memcmp(bytes, memory + at, sizeof bytes) == 0);
	memset(bytes, 'w', sizeof bytes);
	assert(pwrite(file, bytes, sizeof bytes, 5000) == sizeof bytes);
	memory[6000] = 'm';
	assert(munmap(memory, size) == 0);
	close(file);

	memory = map("grown", 10000, &file);
	strcpy(memory + 9000, "before");
	assert(ftruncate(file, 200001) == 0);
	memory = mremap(memory, 10000, 200001, MREMAP_MAYMOVE);
	assert(memory != MAP_FAILED);
	strcpy(memory + 199990, "at the end");
	if (fork() == 0) {
		strcpy(memory + 100000, "by a child");
		_exit(0);
	}
	wait(NULL);
	if (fork() == 0) {
		strcpy(memory + 150000, "killed after this");
		raise(SIGKILL);
	}
	wait(NULL);
	/* never unmapped */
	memory[0] = 'x';
	return 0;
}
