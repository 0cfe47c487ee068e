/* Loads the library named by its argument, if there is one, while another thread runs. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int stop;

static void *wait_for_end(void *unused)
{
	while (!atomic_load_explicit(&stop, memory_order_acquire))
		;
	return unused;
}

int main(int count, char **arguments)
{
	pthread_t thread;
	pthread_create(&thread, NULL, wait_for_end, NULL);
	if (count > 1 && !dlopen(arguments[1], RTLD_NOW))
		puts(dlerror());
	atomic_store_explicit(&stop, 1, memory_order_release);
	pthread_join(thread, NULL);
	puts("ended");
	return 0;
}
