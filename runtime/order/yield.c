/* Gives the baton away before a call that waits would: because a thread has waited long for it, or
 * because chaos demands it. Private stack. */
#include "order/yield.h"
#include "base/futex.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "gen/numbers.h"
#include "log/request.h"
#include "log/ring.h"
#include "order/baton.h"
#include "order/chaos.h"
#include "order/policy.h"
#include "order/turn.h"

#define FIRST_PAUSE_NS 50000UL
#define MOST_COURTESY_NS 20000000UL /* some rounds of the kernel's scheduler */

/* Chaos: a waiting thread goes first, or one that comes during the delay, or none. Returns 1 if one
 * did. */
static u32 give_away(struct context *context, u64 *turn)
{
	chaos_new_priority(context);
	baton_release(context);
	return baton_acquire(context, turn);
}

/* Chaos, at a sync point. Without a baton other processes run anyway, and under the sync policy
 * other threads do. */
static void yield_in_chaos(struct context *context)
{
	u64 turn;
	if (!chaos_one_in(context, HEADER->chaos.yield_one_in))
		return;
	if (!context->process->domain || context->sections)
		chaos_delay(context);
	else if (give_away(context, &turn))
		log_turn(context, turn_kind(context), turn);
}

/* Returns whether a thread waits, but none has had a turn since `turn`. */
static u32 nobody_came(const struct domain *domain, u64 turn)
{
	return __atomic_load_n(&domain->turn, __ATOMIC_ACQUIRE) == turn &&
	       __atomic_load_n(&domain->waiters, __ATOMIC_RELAXED);
}

/* Gives a waiting thread time to take the baton, and leaves it this core in case all are busy. The
 * thread may also be stopped or dead, so the wait gets shorter each time that no thread came.
 * Returns 1 if one came. */
static u32 let_others(struct context *context, u64 *turn)
{
	struct domain *domain = context->process->domain;
	u64 before = domain->turn, most = MOST_COURTESY_NS >> minimum(context->refused, 8),
	    spent = 0;
	baton_release(context);
	for (u32 i = 0; i < 50 && nobody_came(domain, before); i++)
		sys0(NR_sched_yield);
	for (u64 pause[2] = {0, FIRST_PAUSE_NS}; spent < most && nobody_came(domain, before);
		pause[1] *= 2) {
		sys2(NR_nanosleep, pause, NULL);
		spent += pause[1];
	}
	context->refused = nobody_came(domain, before) ? context->refused + 1 : 0;
	return baton_acquire(context, turn);
}

/* The same while the thread spins. It sleeps at once: a thread that yields its core may lose it to
 * other programs for long. */
static u32 give_way(struct context *context, u64 *turn)
{
	baton_give_way(context);
	baton_release(context);
	u32 came = baton_acquire(context, turn);
	context->refused = came ? 0 : context->refused + 1;
	return came;
}

static u32 give_up(struct context *context, u64 *turn)
{
	return orders_at_random() ? give_away(context, turn) : let_others(context, turn);
}

/* Called at a sync point when the supervisor's clock says that a thread has waited long. */
void baton_yield(struct context *context)
{
	struct domain *domain = context->process->domain;
	if (orders_at_random()) {
		yield_in_chaos(context);
		return;
	}
	if (!domain)
		return;
	u64 turn, now;
	context->seen_tick = HEADER->yield_tick;
	if (context->parallel)
		/* This thread has no baton, so yielding would take it from its holder. */
		return;
	if (!__atomic_load_n(&domain->callers, __ATOMIC_SEQ_CST) && baton_has_credit(domain, &now))
		context->slot->baton.kept++;
	else if (__atomic_load_n(&domain->waiters, __ATOMIC_SEQ_CST) && let_others(context, &turn))
		log_turn(context, turn_kind(context), turn);
}

/* A thread that ends the process waits for threads that print. A pipe may be full for ever, so it
 * looks whether any of them can go on, and gives up if that was not so several times. */
#define PRINTING_NS 10000000UL
#define VAIN_LOOKS 4
#define LONGEST_PRINTING_NS 1000000000UL
#define PRINTING_LOOK_MS 1

static u32 printers_go_on(struct context *context)
{
	return __atomic_load_n(&context->process->domain->waiters, __ATOMIC_SEQ_CST) ||
	       request(context, REQUEST_PRINTERS, 0, 0, 0) > 0;
}

void baton_await_printers(struct context *context)
{
	struct process *process = context->process;
	struct domain *domain = process->domain;
	if (!domain)
		return;
	/* A thread counts itself, then looks at this. */
	__atomic_store_n(&process->seen.closing, 1, __ATOMIC_SEQ_CST);
	u32 count = __atomic_load_n(&process->printing, __ATOMIC_SEQ_CST);
	if (!count)
		return;
	u64 turn, now = now_ns(), look = now + PRINTING_NS, last = now + LONGEST_PRINTING_NS;
	u32 vain = 0;
	do {
		if (!__atomic_load_n(&domain->waiters, __ATOMIC_SEQ_CST))
			futex_wait(&process->printing, count, PRINTING_LOOK_MS);
		else if (give_up(context, &turn))
			log_turn(context, turn_kind(context), turn);
		count = __atomic_load_n(&process->printing, __ATOMIC_SEQ_CST);
		now = now_ns();
		if (count && now >= look) {
			vain = printers_go_on(context) ? 0 : vain + 1;
			look = now + PRINTING_NS;
		}
	} while (count && vain < VAIN_LOOKS && now < last);
}

/* The thread computed, so the others have credit no longer, but may earn it. */
static void end_credit(struct domain *domain)
{
	domain->stopped_turn = domain->turn;
	domain->credit_until_ns = 0;
}

/* Called at a forced point whose event announces a TURN event. So the TURN event is logged even if
 * no thread took the baton. */
static void offer(struct context *context, u32 (*give)(struct context *, u64 *))
{
	u64 turn;
	if (!give(context, &turn))
		turn = context->domain->turn = context->slot->baton.turn =
			context->domain->turn + 1;
	log_turn(context, turn_kind(context), turn);
}

/* Logs before the call that the baton was given away, even if it never comes back: other threads
 * may see what follows the call. */
void baton_leave(struct context *context)
{
	if (!context->process->domain || !chaos_one_in(context, HEADER->chaos.yield_one_in))
		return;
	ring_event(context, EVENT_TURN, 0, TURN_GIVEN, 0, NULL, 0);
	end_credit(context->process->domain);
	offer(context, give_up);
}

/* Logs the place first: if the thread never gets the baton back, its stream ends there. */
u32 baton_give(struct context *context, u16 kind, u64 count)
{
	struct domain *domain = context->process->domain;
	u32 signalled = kind == PASSAGE_ROUND && context->deferred_count;
	if (!domain || (!signalled && !__atomic_load_n(&domain->waiters, __ATOMIC_SEQ_CST)))
		return 0;
	ring_event(context, EVENT_PASSAGE, 0, kind, (i64)count, NULL, 0);
	if (kind == PASSAGE_LOCK)
		end_credit(domain);
	context->force.stopped = 1;
	offer(context, kind == PASSAGE_ROUND && !orders_at_random() ? give_way : give_up);
	context->force.stopped = 0;
	return 1;
}

void baton_offer(struct context *context)
{
	if (obeys_order()) {
		turn_obey_next(context);
		return;
	}
	end_credit(context->process->domain);
	offer(context, give_up);
}
