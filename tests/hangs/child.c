/* A parent waits for its child, which waits for the parent to write. */
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	int pipe_ends[2];
	char byte;

	pipe(pipe_ends);
	if (fork() == 0) {
		close(pipe_ends[1]);
		return read(pipe_ends[0], &byte, 1) == 1;
	}
	write(1, "ready\n", 6);
	wait(NULL);
	return 0;
}
