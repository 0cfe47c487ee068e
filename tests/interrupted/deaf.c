/* Waits for a child that neither executes a program nor ends: until then the kernel delivers no
 * signal with a handler. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	puts("ready");
	fflush(stdout);
	pid_t child = vfork();
	if (child == 0)
		for (;;)
			pause();
	return 0;
}
