/* Settled replay: how a thread waits, see log/settle.c. Private stack. */
#include "order/settling.h"
#include "base/futex.h"
#include "log/gate.h"
#include "log/log.h"
#include "log/settle.h"

#define LOOK_AGAIN_MS 1000

/* Of threads that all wait, or the time of all is up. */
static void stuck(struct context *context, const struct awaits *awaits, u64 spent_ns) NORETURN;
static void stuck(struct context *context, const struct awaits *awaits, u64 spent_ns)
{
	if (awaits->stream)
		diverge(context, WHY_DEADLOCK, awaits->stream - 1, awaits->operations);
	diverge(context, WHY_STUCK, context->domain->completed + 1, spent_ns / 1000000);
}

static void wait_to_run(struct context *context)
{
	struct patience patience = {0, 0};
	while (__atomic_load_n(&context->settled, __ATOMIC_SEQ_CST) != SETTLED_RUNS) {
		futex_wait(&context->settled, SETTLED_WAITS, LOOK_AGAIN_MS);
		u64 progress = context->domain->completed + context->domain->handed_over,
		    spent = patience_spent(&patience, progress);
		if (spent)
			stuck(context, &(struct awaits){.turn = 0}, spent);
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
		if (!settle_hand_over(context->domain))
			stuck(context, awaits, 0);
		wait_to_run(context);
	}
	context->slot->baton.state = before;
}
