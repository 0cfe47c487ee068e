// Kills a process that shares all memory with this one, and waits until the kernel reports its end
// in that memory.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char stack[65536] __attribute__((aligned(16)));
static int word;

static int waits(void *unused)
{
	(void)unused;
	for (;;)
		pause();
	return 0;
}

int main(void)
{
	int flags = CLONE_VM | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD, seen;
	word = -1;
	int child = clone(waits, stack + sizeof stack, flags, NULL, NULL, NULL, &word);
	if (child < 0 || kill(child, SIGKILL))
		return 1;
	while ((seen = __atomic_load_n(&word, __ATOMIC_SEQ_CST)) != 0)
		syscall(SYS_futex, &word, FUTEX_WAIT, seen, NULL, NULL, 0);
	waitpid(child, NULL, 0);
	puts("cleared");
	return 0;
}
