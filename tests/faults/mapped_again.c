// Maps and changes two files whose inode numbers have the same last ten bits, as often as the
// argument says.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_FILES 100000
#define BYTES 4096
#define ALIKE 1024

static int create(unsigned long *number)
{
	struct stat stat;
	int file = memfd_create("mapped", 0);
	if (file < 0 || ftruncate(file, BYTES) || fstat(file, &stat))
		exit(1);
	*number = stat.st_ino % ALIKE;
	return file;
}

static void change(int file)
{
	char *bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (bytes == MAP_FAILED)
		exit(1);
	/* Its times make it another file now. */
	if (pwrite(file, "x", 1, 1) != 1)
		exit(1);
	printf("%d\n", ++*bytes);
}

int main(int argc, char **argv)
{
	unsigned long number, other;
	int first = create(&number), second = create(&other);
	for (int i = 0; other != number; i++) {
		if (i == MOST_FILES)
			return 2;
		close(second);
		second = create(&other);
	}
	for (int times = atoi(argv[argc - 1]); times > 0; times--) {
		change(first);
		change(second);
	}
	return 0;
}
