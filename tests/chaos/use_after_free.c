// One thread closes and frees a session while another thread still counts in it.
// fails: status 1
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIVE 0x600d5e55
#define OPERATIONS 20

struct session { int magic, operations; };
static struct session *volatile current;

static void *worker(void *unused)
{
	for (int i = 0; i < OPERATIONS; i++) {
		struct session *session = current;
		if (!session)
			break;
		session->operations++;
		if (session->magic != ALIVE) {
			fputs("used after it was freed\n", stderr);
			exit(1);
		}
	}
	return unused;
}

static void *closer(void *unused)
{
	struct session *session = current;
	current = NULL;
	memset(session, 0xdd, sizeof *session); /* as a debugging allocator does */
	free(session);
	return unused;
}

int main(void)
{
	pthread_t threads[2];
	struct session *session = malloc(sizeof *session);
	*session = (struct session){ ALIVE, 0 };
	current = session;
	pthread_create(&threads[0], NULL, worker, NULL);
	pthread_create(&threads[1], NULL, closer, NULL);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	puts("closed");
	return 0;
}
