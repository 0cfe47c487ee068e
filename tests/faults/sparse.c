/* Maps files of four terabytes, of which one page each is not a hole: shared, and private. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static int sparse_file(int file, long bytes, const char *text)
{
	return file < 0 || ftruncate(file, bytes) || pwrite(file, text, 4, bytes / 2) != 4;
}

int main(void)
{
	const long bytes = 1L << 42;
	int memory = memfd_create("sparse", 0), file = open("file", O_RDWR | O_CREAT, 0600);
	if (sparse_file(memory, bytes, "data") || sparse_file(file, bytes, "more"))
		return 1;
	char *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory, 0);
	char *private = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, file, 0);
	if (shared == MAP_FAILED || private == MAP_FAILED || unlink("file"))
		return 2;
	shared[0] = 'x';
	printf("%.4s %d %.4s %d\n", shared + bytes / 2, shared[bytes - 1], private + bytes / 2,
		private[0]);
	return 0;
}
