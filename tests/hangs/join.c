/* Two threads wait for each other's end. */
#include <pthread.h>
#include <unistd.h>

static pthread_t first;

static void *join_first(void *unused)
{
	write(1, "ready\n", 6);
	pthread_join(first, NULL);
	return unused;
}

int main(void)
{
	pthread_t second;

	first = pthread_self();
	pthread_create(&second, NULL, join_first, NULL);
	pthread_join(second, NULL);
	return 0;
}
