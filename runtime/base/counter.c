/* The time-stamp counter, as the program sees it. Any stack. */
#include "base/counter.h"
#include "base/shared.h"
#include "base/sys.h"
#include "gen/numbers.h"

/* Reads the kernel's clock in place of the counter where RDTSC traps for the runtime, too. */
static u64 clock_ticks(void)
{
	struct {
		i64 seconds, nanoseconds;
	} now;
	sys2(NR_clock_gettime, 4 /* CLOCK_MONOTONIC_RAW */, &now);
	u64 per_second = HEADER->ticks_per_second;
	return (u64)now.seconds * per_second + (u64)now.nanoseconds * (per_second / 1000) / 1000000;
}

static u64 processor_ticks(void)
{
	u32 low, high;
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (u64)high << 32 | low;
}

/* Runs before the counter traps, so that the values the program sees continue from the counter's.
 */
void counter_compare(struct process *process)
{
	process->counter_ahead = processor_ticks() - clock_ticks();
	process->counter_compared = 1;
}

u64 counter_read(const struct context *context)
{
	return context->counter_traps ? clock_ticks() + context->process->counter_ahead
				      : processor_ticks();
}
