/* Passages: calls of functions that lock. Stubs count them, for each thread, so a thread can give
 * up the baton at any of them and be found there again at replay, for the price of a hand-over.
 * Private stack. */
#include "order/passage.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "log/log.h"
#include "order/baton.h"
#include "signals/signal.h"

#define HIGHEST_BYTE 7 /* of the count: nobody makes so many calls that they would reach it */
#define MOST_TIMES_ASKED 20
/* A microsecond or two: longer than a processor keeps back what it writes. */
#define NOTICE_SPINS 50
#define COUNT_MASK 0xffffffffffffffUL

/* Whoever has it may count at this moment, in which case it does not notice: its count is never
 * harmed, but what was written is gone. */
static u32 is_noticed(const struct domain *domain, u32 lock, const struct context *holder)
{
	u8 highest;
	for (u32 i = 0; i < NOTICE_SPINS; i++)
		__builtin_ia32_pause();
	return ((__atomic_load_n(&domain->lock, __ATOMIC_RELAXED) ^ lock) & ~LENT) ||
	       copy_user(&highest, (const u8 *)&holder->passages + HIGHEST_BYTE, 1) || highest;
}

void passage_ask(struct domain *domain, u32 lock)
{
	const u8 negative = 0x80;
	struct process *process = context_self()->process;
	struct context *holder = __atomic_load_n(&process->holder, __ATOMIC_RELAXED);
	if (domain != &process->private_domain || !holder || sync_policy())
		return;
	for (u32 i = 0; i < MOST_TIMES_ASKED; i++)
		if (copy_user((u8 *)&holder->passages + HIGHEST_BYTE, &negative, 1) ||
			is_noticed(domain, lock, holder))
			return;
}

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
	/* It may be asked again at any time. */
	return baton_give(context, (u64)context->passages & COUNT_MASK);
}

void passage(struct context *context)
{
	if (!recording())
		replay(context);
	else if (!record(context))
		return; /* nothing says where it is, so nothing may happen here */
	leave(context);
}
