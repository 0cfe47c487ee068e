/* Stamps of threads whose time-stamp counter traps, and of threads without stamps. Any stack. */
#include "base/stamp.h"
#include "base/counter.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/vdso_clock.h"
#include "gen/numbers.h"

/* Reading the kernel's clock takes as long as a system call. So a thread reads it once in this many
 * events, or when the coarse clock has ticked. */
#define EVENTS_PER_CLOCK 16u
#define CLOCK_MONOTONIC_COARSE 6

void stamps_begin(struct context *context)
{
	if (!stamps_events() || context->counter_traps == COUNTER_UNKNOWN)
		context->stamps = STAMPS_NONE;
	else
		context->stamps = context->counter_traps ? STAMPS_CLOCK : STAMPS_COUNTER;
}

/* Returns whether the coarse clock has ticked since the last call; it ticks every few milliseconds.
 * The vDSO reads it without the counter. */
static u32 has_ticked(struct context *context)
{
	clock_function *function = vdso_clock_of(context, NR_clock_gettime);
	struct {
		i64 seconds, nanoseconds;
	} now;
	if (!function || vdso_clock_ask(context, function, CLOCK_MONOTONIC_COARSE, (u64)&now) < 0)
		return 0;
	u64 tick = (u64)now.seconds << 32 | (u64)now.nanoseconds, before = context->stamp_tick;
	context->stamp_tick = tick;
	return tick != before;
}

u8 stamp_otherwise(struct context *context, u8 *at)
{
	if (context->stamps == STAMPS_NONE ||
		(!has_ticked(context) && context->event_count % EVENTS_PER_CLOCK))
		return 0;
	*(u64 *)at = stamp_since(context, counter_read(context));
	return EVENT_STAMPED;
}
