/* Looks for traces of images that are taken of it, until the file `enough` exists: children, their
 * signals, descriptors, additional memory. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int children_told;

static void handler(int number) { children_told += number; }

static int entries(const char *folder)
{
	int count = 0;
	DIR *list = opendir(folder);
	while (readdir(list))
		count++;
	closedir(list);
	return count;
}

int main(void)
{
	signal(SIGCHLD, handler);
	int descriptors = entries("/proc/self/fd"), tasks = entries("/proc/self/task");
	for (int i = 0; access("enough", F_OK) && i < 1000000; i++) {
		int status, pid = waitpid(-1, &status, __WALL | WNOHANG);
		if (pid != -1 || errno != ECHILD)
			return printf("a child: %d\n", pid), 1;
		if (entries("/proc/self/fd") != descriptors)
			return printf("other descriptors\n"), 1;
		if (entries("/proc/self/task") != tasks)
			return printf("other threads\n"), 1;
		if (children_told)
			return printf("SIGCHLD\n"), 1;
	}
	return puts("nothing was seen"), 0;
}
