/* Settled replay of a parallel recording: of the threads of a process one runs at a time, for
 * somebody looks on. Private stack.
 *
 * A thread runs until it has to wait, for a turn or for another thread's operation. Then that one
 * runs of those that need not wait whose stream has the lowest number. So the order is the same in
 * every replay, and it is one of those that the recording allows. All that counts is memory of the
 * process's own: a copy of the process goes on in the same way. */
#include "log/settle.h"
#include "base/futex.h"
#include "log/gate.h"
#include "log/log.h"

#define LOOK_AGAIN_MS 1000

u32 has_come_for(const struct domain *domain, const struct awaits *awaits)
{
	if (awaits->turn)
		return __atomic_load_n(&domain->completed, __ATOMIC_SEQ_CST) + 1 >= awaits->turn;
	return !awaits->stream || __atomic_load_n(&progress_of(awaits->stream - 1)->operations,
					  __ATOMIC_ACQUIRE) > awaits->operations;
}

static struct context *context_of(u64 region)
{
	return (struct context *)(REGIONS + region * REGION_STRIDE + REGION_CONTEXT);
}

/* The one to run next; NULL: all wait. `others`: somebody does. */
static struct context *next_to_run(const struct domain *domain, u32 *others)
{
	struct context *next = NULL;
	*others = 0;
	for (u32 region = 0; region < PROCESS_INITIAL->region_count; region++) {
		struct context *one = context_of(region);
		if (one->settled != SETTLED_WAITS)
			continue;
		*others = 1;
		if (has_come_for(domain, &one->awaits) &&
			(!next || as_holder(one) < as_holder(next)))
			next = one;
	}
	return next;
}

static void hand_over(struct context *context)
{
	u32 others;
	struct context *next = next_to_run(context->domain, &others);
	if (!next && others)
		diverge(context, context->awaits.stream ? WHY_DEADLOCK : WHY_STUCK,
			context->awaits.stream ? context->awaits.stream - 1
					       : context->domain->completed + 1,
			context->awaits.operations);
	if (!next)
		return;
	context->domain->handed_over++;
	next->awaits = (struct awaits){.turn = 0};
	__atomic_store_n(&next->settled, SETTLED_RUNS, __ATOMIC_SEQ_CST);
	futex_wake(&next->settled, 1);
}

static void wait_to_run(struct context *context)
{
	struct patience patience = {0, 0};
	while (__atomic_load_n(&context->settled, __ATOMIC_SEQ_CST) != SETTLED_RUNS) {
		futex_wait(&context->settled, SETTLED_WAITS, LOOK_AGAIN_MS);
		u64 completed = context->domain->completed,
		    spent = patience_spent(&patience, completed + context->domain->handed_over);
		if (spent)
			diverge(context, WHY_STUCK, completed + 1, spent / 1000000);
	}
}

void settle(struct context *context, const struct awaits *awaits)
{
	u32 before = context->slot->baton.state;
	context->slot->baton.state = BATON_WAITING; /* it can be copied */
	wait_to_run(context);			    /* a new thread has not run yet */
	while (!has_come_for(context->domain, awaits)) {
		context->awaits = *awaits;
		context->settled = SETTLED_WAITS;
		hand_over(context);
		wait_to_run(context);
	}
	context->slot->baton.state = before;
}

void settle_create(struct context *context)
{
	for (u32 region = 0; region < PROCESS_INITIAL->region_count; region++)
		context_of(region)->settled = SETTLED_NOT;
	context->settled = SETTLED_RUNS;
}

void settle_thread(struct context *child)
{
	child->awaits = (struct awaits){.turn = 0};
	child->settled = SETTLED_WAITS;
}

void settle_end(struct context *context)
{
	context->settled = SETTLED_NOT;
	hand_over(context);
}
