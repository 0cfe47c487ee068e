/* Calls without a pause, while a handler on an alternate stack interrupts them, until the file
 * `enough` exists. Nothing may be lost, wherever retake takes hold of the program or lets it go.
 * Argument: the user ID that it takes. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static char stack[65536];
static volatile long ticks, outside, blocked;

static void ticked(int number)
{
	char here;
	sigset_t mask;
	ticks++;
	outside += &here < stack || &here >= stack + sizeof stack;
	sigprocmask(SIG_SETMASK, NULL, &mask);
	blocked += sigismember(&mask, number) && !sigismember(&mask, SIGUSR1);
	for (volatile int wait = 0; wait < 20000; wait++)
		;
}

int main(int count, char **arguments)
{
	stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack}, now;
	struct sigaction action = {.sa_handler = ticked, .sa_flags = SA_ONSTACK | SA_RESTART};
	struct itimerval often = {{0, 700}, {0, 700}};
	struct timespec time, before = {0};
	long wrong = 0, backwards = 0;
	double value = 1;
	if (count > 1 && setuid(atoi(arguments[1])))
		return 9;
	sigaltstack(&alternate, NULL);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int round = 0; access("enough", F_OK) && round < 10000000; round++) {
		for (int i = 0; i < 300; i++)
			wrong += syscall(SYS_getpid) != getpid();
		for (volatile int i = 0; i < 20000; i++)
			value = value * 1.0000001 + 0.1;
		clock_gettime(CLOCK_MONOTONIC, &time);
		backwards += time.tv_sec < before.tv_sec ||
			(time.tv_sec == before.tv_sec && time.tv_nsec < before.tv_nsec);
		before = time;
		if (round % 100 == 0) {
			printf("round %d %f\n", round, value);
			fflush(stdout);
		}
	}
	sigaltstack(NULL, &now);
	printf("wrong %ld, backwards %ld, outside %ld, all blocked %d, stack %d\n", wrong, backwards,
		outside, ticks > 10 && blocked == ticks, now.ss_sp == stack && !now.ss_flags);
	return 7;
}
