/* Stamps of threads whose time-stamp counter traps, and of those that have none. Any stack. */
#include "base/stamp.h"
#include "base/counter.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/vdso_clock.h"
#include "gen/numbers.h"

/* To ask the kernel takes as long as a call: so many events go by for each, */
#define EVENTS_PER_CLOCK 16u
#define CLOCK_MONOTONIC_COARSE 6

void stamps_begin(struct context *context)
{
	if (!stamps_events() || context->counter_traps == COUNTER_UNKNOWN)
		context->stamps = STAMPS_NONE;
	else
		context->stamps = context->counter_traps ? STAMPS_CLOCK : STAMPS_COUNTER;
}

/* unless its tick has come since, every few milliseconds. The vDSO knows without the counter. */
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
