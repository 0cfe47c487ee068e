/* Passages: calls of functions that lock, and rounds of spinning. Stubs count them for each thread.
 * So a thread can give up the baton at any of them for the price of a hand-over, and replay finds
 * the place again. Private stack. */
#include "order/passage.h"
#include "base/capabilities.h"
#include "base/image.h"
#include "base/rounds.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "log/log.h"
#include "log/ring.h"
#include "order/baton.h"
#include "order/policy.h"
#include "order/yield.h"

#define COUNT_MASK 0xffffffffffffffUL
#define PASSAGES_CELL 8UL
#define ROUNDS_CELL 16UL
/* From r8 to rcx, see `struct registers`. */
#define GENERAL_REGISTERS 15
/* The most by which a count changes from one look to the next. */
#define MOST_COUNTED (64 * LEAST_ROUNDS)
/* Among threads that only spin, one in so many looks gives the baton away. */
#define VAIN_LOOKS 64

static u64 passages_so_far(const struct context *context)
{
	return (u64)(context->passages - context->passages_ahead);
}

/* ---- replay ---- */

void passage_expect(struct context *context, const struct event *event)
{
	u32 in_round = event->number == PASSAGE_ROUND;
	u64 passed = in_round ? rounds_so_far(context) : passages_so_far(context);
	u64 recorded = (u64)event->value;
	if (recorded <= passed || recorded > COUNT_MASK)
		diverge(context, WHY_PASSAGE, recorded, passed);
	if (in_round) {
		rounds_arm(context, recorded);
		return;
	}
	context->passages_ahead = (i64)((1UL << 63) - recorded);
	context->passages = (i64)passed + context->passages_ahead;
}

static void replay(struct context *context, u16 kind)
{
	context->passages = (i64)passages_so_far(context);
	context->passages_ahead = 0;
	rounds_disarm(context);
	log_take(context, EVENT_PASSAGE, kind);
	if (context->domain)
		baton_offer(context);
}

u64 passage_cell_address(const struct context *context, const struct forced_cell *cell)
{
	return cell->address == PASSAGES_CELL ? (u64)&context->passages
	       : cell->address == ROUNDS_CELL ? (u64)&context->rounds
					      : cell->address;
}

/* ---- record ---- */

u64 passage_cells(const struct context *context, struct forced_cell *cells)
{
	u64 passages = (u64)context->passages & COUNT_MASK, rounds = rounds_so_far(context);
	u64 count = 0;
	if (passages)
		cells[count++] = (struct forced_cell){PASSAGES_CELL, passages};
	if (rounds)
		cells[count++] = (struct forced_cell){ROUNDS_CELL, rounds};
	return count;
}

static u32 record(struct context *context)
{
	context->passages &= (i64)COUNT_MASK;
	image_note(context, GOES_ON_TURN);
	/* The thread may be asked again at any time. */
	return baton_give(context, PASSAGE_LOCK, (u64)context->passages & COUNT_MASK);
}

/* Returns whether the thread has only spun since it looked last: its registers are the same, but
 * for counts of rounds. */
static u32 only_spun(const struct context *context)
{
	const struct registers *now = &context->regs, *before = &context->spun;
	if (now->rip != before->rip || now->rsp != before->rsp)
		return 0;
	for (u32 i = 0; i < GENERAL_REGISTERS; i++) {
		u64 change = (&now->r8)[i] - (&before->r8)[i];
		if (change % LEAST_ROUNDS || change + MOST_COUNTED > 2 * MOST_COUNTED)
			return 0;
	}
	return 1;
}

/* Returns whether all threads that wait for the baton wait for yet another thread, which is in a
 * call: each has had a turn, and has only spun. */
static u32 others_only_spin(struct context *context, const struct domain *domain)
{
	struct process *process = context->process;
	u32 in_vain = only_spun(context);
	u64 since = domain->turn - process->vain_turn;
	context->spun = context->regs;
	process->vain_looks = in_vain && since <= 1 ? process->vain_looks + 1 : in_vain;
	process->vain_turn = domain->turn;
	return !__atomic_load_n(&domain->callers, __ATOMIC_SEQ_CST) &&
	       process->vain_looks > 2 * domain->waiters && process->vain_looks % VAIN_LOOKS;
}

/* While a thread that has the baton spins, no other thread can do what it waits for. Signals are
 * delivered on the way out. */
static u32 record_round(struct context *context)
{
	u64 rounds = rounds_so_far(context);
	const struct domain *domain = context->process->domain;
	rounds_arm(context, rounds + (domain ? LEAST_ROUNDS : ROUNDS_ALONE));
	image_note(context, GOES_ON_TURN);
	if (!domain) {
		if (context->deferred_count && logs())
			ring_event(context, EVENT_PASSAGE, 0, PASSAGE_ROUND, (i64)rounds, NULL, 0);
		return context->deferred_count != 0;
	}
	if (!context->deferred_count) {
		if (!baton_is_wanted(context))
			/* A thread on this core may be about to ask for the baton. */
			sys0(NR_sched_yield);
		else if (others_only_spin(context, domain))
			return 0;
	}
	return baton_give(context, PASSAGE_ROUND, rounds);
}

u32 passage(struct context *context)
{
	u32 in_round = (u64)context->rounds >= ROUNDS_END;
	if (!obeys_order())
		return in_round ? record_round(context) : record(context);
	replay(context, in_round ? PASSAGE_ROUND : PASSAGE_LOCK);
	return 1;
}
