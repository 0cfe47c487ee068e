/* Threads that compute on stacks they have made: right before memory that other processes write,
 * before a mapped file, at the very end of their mapping, and with a frame pointer into memory of
 * other processes. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK = 1 << 16, PAGE = 4096 };

static unsigned long *shared;

/* The loop keeps a pointer to the shared word where frame pointers usually are. */
static unsigned long compute(unsigned long hash, unsigned long *pointer)
{
	for (long i = 0; i < 40000000; i++)
		__asm__ volatile("push %%rbp\n mov %1, %%rbp\n imul %2, %0\n add $1, %0\n pop %%rbp"
				 : "+r"(hash)
				 : "r"(pointer), "r"(6364136223846793005UL)
				 : "cc");
	return hash;
}

static void *work(void *argument)
{
	return (void *)compute((unsigned long)argument, shared);
}

int main(void)
{
	pthread_t threads[3];
	pthread_attr_t attributes;
	void *results[3];
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t writer = fork();
	for (; writer == 0; (*shared)++)
		;
	for (long i = 0; i < 3; i++) {
		char *stack = mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
		if (i == 0) /* the other process writes the page behind the stack */
			mremap(shared, 0, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, stack + STACK);
		if (i == 1) /* the page is read-only */
			mprotect(stack + STACK, PAGE, PROT_READ);
		if (i == 2) /* there is no page */
			munmap(stack + STACK, PAGE);
		pthread_attr_init(&attributes);
		pthread_attr_setstack(&attributes, stack, STACK);
		if (pthread_create(&threads[i], &attributes, work, (void *)(i + 1)))
			return 1;
	}
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], &results[i]);
		printf("%lx\n", (unsigned long)results[i]);
	}
	kill(writer, 9);
	waitpid(writer, NULL, 0);
	return 0;
}
