/* Makes three children that execute this program again, each with children of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

long born, sum;

long depth_of(const char *text)
{
	return strtol(text, NULL, 10);
}

int main(int argc, char **argv)
{
	long depth = argc > 1 ? depth_of(argv[1]) : 2;
	char next[16];
	snprintf(next, sizeof next, "%ld", depth - 1);
	for (int i = 0; depth > 0 && i < 3; i++) {
		if (fork() == 0) {
			execl(argv[0], argv[0], next, (char *)NULL);
			_exit(99);
		}
		born++;
	}
	for (long i = 0; i < born; i++) {
		int status;
		wait(&status);
		sum += WEXITSTATUS(status);
	}
	return depth > 0 ? sum + 1 : 1;
}
