// Maps a file twice, once writable and once executable, and executes it.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void)
{
	// mov $42,%eax; ret
	static const unsigned char code[] = {0xb8, 42, 0, 0, 0, 0xc3};
	int file = memfd_create("code", 0);
	if (file < 0 || ftruncate(file, 4096))
		return 1;
	unsigned char *writable = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	void *executable = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
	if (writable == MAP_FAILED || executable == MAP_FAILED)
		return 2;
	memcpy(writable, code, sizeof code);
	printf("executed %d\n", ((int (*)(void))executable)());
	return 0;
}
