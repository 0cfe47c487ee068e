/* Passages: calls of functions that lock. Stubs count them for each thread. So a thread can give up
 * the baton at any of them for the price of a hand-over, and replay finds the place again. Private
 * stack. */
#include "order/passage.h"
#include "base/image.h"
#include "base/state.h"
#include "base/user.h"
#include "log/log.h"
#include "order/policy.h"
#include "order/yield.h"

#define COUNT_MASK 0xffffffffffffffUL

static u64 passages_so_far(const struct context *context)
{
	return (u64)(context->passages - context->passages_ahead);
}

void passage_expect(struct context *context, const struct event *event)
{
	u64 passed = passages_so_far(context), recorded = (u64)event->value;
	if (recorded <= passed || recorded > COUNT_MASK)
		diverge(context, WHY_PASSAGE, recorded, passed);
	context->passages_ahead = (i64)((1UL << 63) - recorded);
	context->passages = (i64)passed + context->passages_ahead;
}

static void replay(struct context *context)
{
	context->passages = (i64)passages_so_far(context);
	context->passages_ahead = 0;
	log_take(context, EVENT_PASSAGE, 0);
	baton_offer(context);
}

static u32 record(struct context *context)
{
	context->passages &= (i64)COUNT_MASK;
	image_note(context, GOES_ON_TURN);
	/* The thread may be asked again at any time. */
	return baton_give(context, (u64)context->passages & COUNT_MASK);
}

u32 passage(struct context *context)
{
	if (!obeys_order())
		return record(context);
	replay(context);
	return 1;
}
