/* Agrees with the supervisor on when it may send the signal that forces a thread. The state is in
 * the thread's slot. Private stack; force_want runs in the handler, too. */
#include "order/forcing.h"
#include "base/futex.h"
#include "base/sys.h"
#include "gen/numbers.h"

/* `in_runtime`: the signal will most likely be delivered in a moment, so the supervisor is not
 * woken. It looks from time to time anyway. */
void force_want(struct context *context, u32 in_runtime)
{
	__atomic_add_fetch(&context->slot->forcing.sequence, 1, __ATOMIC_RELAXED);
	if (!forcing_change(context, FORCE_IDLE, FORCE_WANTED) || in_runtime)
		return;
	__atomic_add_fetch(&HEADER->force_doorbell, 1, __ATOMIC_ACQ_REL);
	futex_wake(&HEADER->force_doorbell, 1);
}

static SELDOM void leave_state(struct context *context, u32 to)
{
	for (;;) {
		u32 state = __atomic_load_n(&context->slot->forcing.state, __ATOMIC_ACQUIRE);
		if (state == to || state == FORCE_CLOSED)
			return;
		if ((state == FORCE_IDLE || state == FORCE_WANTED || state == FORCE_ACTIVE) &&
			forcing_change(context, state, to))
			return;
		/* The signal is being sent, or was: it arrives by the end of this call at the
		 * latest. */
		sys0(NR_sched_yield);
		if (state == FORCE_SENT && forcing_change(context, FORCE_SENT, to))
			/* It never arrives: the kernel merged it with a pending signal of the same
			 * number. */
			return;
	}
}

void force_idle(struct context *context) { leave_state(context, FORCE_IDLE); }

void force_close(struct context *context)
{
	if (UNLIKELY(!forcing_change(context, FORCE_IDLE, FORCE_CLOSED)))
		leave_state(context, FORCE_CLOSED);
}

void force_open(struct context *context)
{
	/* Only this thread opens and closes. */
	if (__atomic_load_n(&context->slot->forcing.state, __ATOMIC_RELAXED) == FORCE_CLOSED)
		forcing_change(
			context, FORCE_CLOSED, context->deferred_count ? FORCE_WANTED : FORCE_IDLE);
}
