/* Chaos: disturbs a recording on purpose, so that rare interleavings happen, with random
 * priorities, delays and places to give up the baton. Private stack.
 *
 * Each thread has its own generator, seeded with the session's seed and the thread's stream. What
 * the thread chooses depends on nothing else. The header has the frequencies, which the supervisor
 * draws from the same seed. */
#include "order/chaos.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "gen/numbers.h"

#define STREAM_STRIDE 0x9e3779b97f4a7c15UL /* odd, its bits spread well */
#define DELAY_SCALES 8			   /* short delays are as likely as long ones */
/* Operations are much more frequent than calls, so delays get rarer the longer a thread runs. */
#define OPERATIONS_UNTIL_RARER 16
#define RAREST 256

/* SplitMix64. */
static u64 next(struct context *context)
{
	if (!context->chaos_state) {
		context->chaos_state = HEADER->chaos.seed + (context->slot->stream + 1UL) *
								    STREAM_STRIDE * STREAM_STRIDE;
		chaos_new_priority(context);
	}
	u64 value = context->chaos_state += STREAM_STRIDE;
	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9UL;
	value = (value ^ value >> 27) * 0x94d049bb133111ebUL;
	return value ^ value >> 31;
}

u64 chaos_below(struct context *context, u64 limit) { return limit ? next(context) % limit : 0; }

u32 chaos_one_in(struct context *context, u32 count) { return count && next(context) % count == 0; }

/* Most priorities are so low that the thread stands still until all others wait. Slow work
 * elsewhere then happens in between. */
void chaos_new_priority(struct context *context)
{
	u64 value = next(context);
	__atomic_store_n(&context->slot->baton.priority,
		value & 3 ? (u32)(value >> 56) : (u32)(value >> 32), __ATOMIC_RELAXED);
}

/* The thread sleeps without the baton, as if the scheduler had left it out. */
void chaos_delay(struct context *context)
{
	const struct chaos *chaos = &HEADER->chaos;
	if (!chaos_one_in(context, chaos->delay_one_in))
		return;
	u64 most = chaos->delay_most_us >> chaos_below(context, DELAY_SCALES);
	struct {
		u64 seconds, nanoseconds;
	} delay = {0, 1000 * (1 + chaos_below(context, most))};
	sys2(NR_nanosleep, &delay, NULL);
}

void chaos_before_operation(struct context *context)
{
	u64 rarer = 1 + context->operations / OPERATIONS_UNTIL_RARER;
	if (!chaos_one_in(context, HEADER->chaos.yield_one_in * (u32)minimum(rarer, RAREST)))
		return;
	if (HEADER->chaos.delay_one_in)
		chaos_delay(context);
	else
		sys0(NR_sched_yield);
}

u32 chaos_goes_first(struct context *context)
{
	const struct slot *own = context->slot;
	u32 used = slots_used();
	for (const struct slot *other = HEADER->slots; other < HEADER->slots + used; other++) {
		if (other == own ||
			__atomic_load_n(&other->baton.state, __ATOMIC_ACQUIRE) != BATON_WAITING ||
			other->baton.domain != own->baton.domain)
			continue;
		if (__atomic_load_n(&other->state, __ATOMIC_ACQUIRE) == SLOT_LIVE &&
			other->baton.priority > own->baton.priority)
			return 0;
	}
	return 1;
}
