/* Two processes lock two files in opposite orders: by flock, or with an argument by fcntl, on open
 * files. Among locks of processes the kernel itself detects deadlocks. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

static int by_fcntl;

static void lock(int file)
{
	struct flock range = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (by_fcntl ? fcntl(file, F_OFD_SETLKW, &range) : flock(file, LOCK_EX))
		abort();
}

static int open_file(const char *name)
{
	return open(name, O_RDWR | O_CREAT, 0600);
}

int main(int argc, char **argv)
{
	int done[2], go[2];
	char byte = 0;

	(void)argv;
	by_fcntl = argc > 1;
	pipe(done);
	pipe(go);
	if (fork() == 0) {
		lock(open_file("b"));
		write(done[1], &byte, 1);
		read(go[0], &byte, 1);
		lock(open_file("a"));
		return 0;
	}
	lock(open_file("a"));
	read(done[0], &byte, 1);
	write(go[1], &byte, 1);
	write(1, "ready\n", 6);
	lock(open_file("b"));
	return 0;
}
