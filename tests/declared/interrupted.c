/* A signal interrupts a thread that computes without any call or atomic instruction. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { TURNS = 400000000 };
static volatile sig_atomic_t handled;

static void handle(int signal) { handled = signal; }

static void *compute(void *unused)
{
	unsigned number = 1;
	for (int i = 0; i < TURNS; i++)
		__asm__("imul $69069, %0, %0\n\tinc %0" : "+r"(number));
	return number ? unused : NULL;
}

int main(void)
{
	pthread_t thread;
	struct sigaction action = {.sa_handler = handle};
	sigaction(SIGUSR1, &action, NULL);
	pthread_create(&thread, NULL, compute, NULL);
	usleep(100000);
	pthread_kill(thread, SIGUSR1);
	pthread_join(thread, NULL);
	puts(handled ? "handled" : "not handled");
	return 0;
}
