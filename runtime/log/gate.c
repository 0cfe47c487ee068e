/* Replay: turns that are over. Any stack. */
#include "log/gate.h"
#include "base/futex.h"

/* A thread that waits for the next turn is in the gate's count before it looks a last time at what
 * is completed. */
void turn_complete(struct context *context)
{
	struct domain *domain = context->domain;
	if (!domain || !context->turn)
		return;
	struct turn_gate *next = gate_of(domain, context->turn + 1);
	__atomic_store_n(&domain->completed, context->turn, __ATOMIC_SEQ_CST);
	context->turn = 0;
	if (!__atomic_load_n(&next->waiters, __ATOMIC_SEQ_CST))
		return;
	__atomic_add_fetch(&next->word, 1, __ATOMIC_SEQ_CST);
	futex_wake(&next->word, 0x7fffffff);
}
