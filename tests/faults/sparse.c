/* Maps a file of two gigabytes, shared, of which one page is not a hole. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void)
{
	const long bytes = 2L << 30;
	int file = memfd_create("sparse", 0);
	if (file < 0 || ftruncate(file, bytes) || pwrite(file, "data", 4, bytes / 2) != 4)
		return 1;
	char *shown = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (shown == MAP_FAILED)
		return 2;
	shown[0] = 'x';
	printf("%.4s %d\n", shown + bytes / 2, shown[bytes - 1]);
	return 0;
}
