/* Settled replay of a parallel recording: one thread of a process runs at a time, so that the
 * process can be inspected. Private stack.
 *
 * A thread runs until it has to wait for a turn or for another thread's operation. Then, of the
 * threads that need not wait, the one whose stream has the lowest number runs. So the order is the
 * same in every replay, and it is an order that the recording allows. It depends only on memory of
 * the process itself, so a copy of the process goes on in the same way. */
#include "log/settle.h"
#include "base/bound.h"
#include "base/futex.h"
#include "log/gate.h"

u32 has_come_for(const struct context *context, const struct awaits *awaits)
{
	if (context->awaited_slot.address)
		return is_bound(&context->awaited_slot);
	if (awaits->turn)
		return __atomic_load_n(&context->domain->completed, __ATOMIC_SEQ_CST) + 1 >=
		       awaits->turn;
	return !awaits->stream || __atomic_load_n(&progress_of(awaits->stream - 1)->operations,
					  __ATOMIC_ACQUIRE) > awaits->operations;
}

/* The next thread to run, or NULL if all wait. `waiting` becomes the waiting thread whose stream
 * has the lowest number, or NULL if there is none. */
static struct context *next_to_run(struct context **waiting)
{
	struct context *next = NULL;
	*waiting = NULL;
	for (u32 region = 0; region < PROCESS_INITIAL->region_count; region++) {
		struct context *one = context_of(region);
		if (one->settled != SETTLED_WAITS)
			continue;
		if (!*waiting || as_holder(one) < as_holder(*waiting))
			*waiting = one;
		if (has_come_for(one, &one->awaits) && (!next || as_holder(one) < as_holder(next)))
			next = one;
	}
	return next;
}

/* Returns 0 if the thread has ended meanwhile. */
static u32 let_run(struct context *next)
{
	u32 waits = SETTLED_WAITS;
	if (!__atomic_compare_exchange_n(
		    &next->settled, &waits, SETTLED_RUNS, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return 0;
	futex_wake(&next->settled, 1);
	return 1;
}

u32 settle_hand_over(struct domain *domain)
{
	struct context *waiting, *next;
	do {
		next = next_to_run(&waiting);
		if (!next)
			return !waiting;
		next->awaits = (struct awaits){.turn = 0};
	} while (!let_run(next));
	domain->handed_over++;
	return 1;
}

u32 settle_let_first_end(const struct context *context)
{
	struct context *first;
	next_to_run(&first);
	return first != context && let_run(first);
}

u32 settle_waits_for_others(void)
{
	for (u32 region = 0; region < PROCESS_INITIAL->region_count; region++) {
		const struct context *one = context_of(region);
		if (one->settled == SETTLED_WAITS && one->awaits.turn &&
			one->domain == &HEADER->shared_domain)
			return 1;
	}
	return 0;
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

/* A thread that was killed before its first turn ends without having run. */
void settle_end(struct context *context)
{
	struct context *waiting;
	u32 before = __atomic_exchange_n(&context->settled, SETTLED_NOT, __ATOMIC_SEQ_CST);
	if (before != SETTLED_RUNS || settle_hand_over(context->domain))
		return;
	next_to_run(&waiting);
	if (waiting)
		let_run(waiting); /* it finds that it cannot run, and reports it */
}
