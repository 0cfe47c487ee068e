/* The runtime's memory for each thread of an address space. Private stack. */
#include "calls/thread_memory.h"
#include "base/addresses.h"
#include "base/process_lock.h"
#include "base/state.h"
#include "base/sys.h"
#include "gen/numbers.h"

/* Takes the region of an ended thread. A thread that has just ended may still be on its stack for a
 * moment. */
static struct context *take_free(struct process *process)
{
	for (u32 *link = &process->region_free; *link;) {
		struct context *context = context_of(*link - 1);
		if (!__atomic_load_n(&context->thread_alive, __ATOMIC_ACQUIRE)) {
			*link = context->next_free;
			u32 region = context->region;
			memset(context, 0, sizeof *context);
			context->region = region;
			return context;
		}
		link = &context->next_free;
	}
	return NULL;
}

/* Returns NULL if the kernel has no memory, or the program's limits leave none. */
static struct context *map_next(struct process *process)
{
	u32 region = process->region_count;
	if (region == MAX_SLOTS)
		return NULL;
	if (executes())
		addresses_grow(process, REGION_STRIDE);
	if (sys6(NR_mmap, region_address(region), REGION_STRIDE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, ~0UL, 0) < 0) {
		if (executes())
			addresses_grow(process, -(i64)REGION_STRIDE);
		return NULL;
	}
	process->region_count++;
	struct context *context = context_of(region);
	context->region = region;
	return context;
}

struct context *region_create(void)
{
	struct process *process = PROCESS_INITIAL;
	process_lock();
	struct context *context = take_free(process);
	if (!context)
		context = map_next(process);
	process_unlock();
	if (!context)
		return NULL;
	context->self = context;
	context->stack_top = region_address(context->region) + REGION_STACK_TOP;
	return context;
}

void region_return(u32 region)
{
	struct process *process = PROCESS_INITIAL;
	process_lock();
	context_of(region)->next_free = process->region_free;
	process->region_free = region + 1;
	process_unlock();
}
