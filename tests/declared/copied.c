/* Copies of a volatile structure, as a whole. */
#include "order.h"

struct large {
	long words[128];
};
static volatile struct large shared;
static volatile int copies;

static void *copy(void *argument)
{
	int thread = (int)(intptr_t)argument;
	struct large own = {{thread + 1}};
	for (int round = 0; round < 200; round++) {
		if (round % 3 == thread)
			shared = own;
		else
			own = shared;
		copies++;
		see(thread, (uint64_t)own.words[0]);
	}
	return NULL;
}

int main(void)
{
	run_threads(3, copy);
	show_order();
	return 0;
}
