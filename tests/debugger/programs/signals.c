/* A thousand signals: the process sends most to itself, a timer the rest while it computes. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

enum { SENT = 980, TIMED = 20 };
volatile long sent, timed;
volatile unsigned long computed;

static void on_signal(int number)
{
	if (number == SIGUSR1)
		sent++;
	else
		timed++;
}

int main(void)
{
	struct sigaction action;
	memset(&action, 0, sizeof action);
	action.sa_handler = on_signal;
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGALRM, &action, NULL);
	for (int i = 0; i < SENT; i++)
		raise(SIGUSR1);
	struct itimerval timer = { { 0, 10000 }, { 0, 10000 } };
	setitimer(ITIMER_REAL, &timer, NULL);
	while (timed < TIMED)
		computed++;
	memset(&timer, 0, sizeof timer);
	setitimer(ITIMER_REAL, &timer, NULL);
	printf("%ld %ld\n", sent, timed > TIMED ? TIMED : timed);
	return 0;
}
