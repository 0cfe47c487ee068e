/* Two threads hand a byte to each other: nearly always, one of them has just been woken. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { ROUNDS = 60000 };
static int there[2], back[2];

static void *other(void *unused)
{
	char byte;
	for (int i = 0; i < ROUNDS; i++)
		if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1)
			break;
	return unused;
}

int main(void)
{
	pthread_t thread;
	char byte = 0;
	if (pipe(there) || pipe(back) || pthread_create(&thread, NULL, other, NULL))
		return 1;
	for (int i = 0; i < ROUNDS; i++)
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			return 1;
	pthread_join(thread, NULL);
	puts("done");
	return 0;
}
