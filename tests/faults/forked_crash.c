/* A child that has executed nothing dies of a null pointer, three functions deep. */
#include <sys/wait.h>
#include <unistd.h>

static int *volatile nothing;

__attribute__((noinline)) static int innermost(int value) { return *nothing + value; }
__attribute__((noinline)) static int middle(int value) { return innermost(value + 1) + 1; }
__attribute__((noinline)) static int outermost(int value) { return middle(value + 1) + 1; }

int main(void)
{
	int status;
	pid_t child = fork();
	if (!child)
		return outermost(1);
	waitpid(child, &status, 0);
	return 0;
}
