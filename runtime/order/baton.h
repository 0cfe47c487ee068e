/* What baton.c offers. */
#ifndef RETAKE_ORDER_BATON_H
#define RETAKE_ORDER_BATON_H
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "contract/context.h"

static inline u32 shares_memory(const struct domain *domain)
{
	return domain == &HEADER->shared_domain;
}
/* The kind of a turn that is taken now. Each turn names its domain, as another thread may have made
 * the process join the shared one. */
static inline u16 turn_kind(const struct context *context)
{
	return shares_memory(context->domain) ? TURN_SHARED : TURN_AGAIN;
}
/* Record: called when the turn's event is in the stream. */
static inline void note_turn(struct context *context, u64 turn)
{
	context->turn_sections = context->slot->baton.turn_sections = 0;
	context->turn = turn;
	/* The supervisor reads the turn before and behind the sections. */
	__atomic_store_n(&context->slot->baton.turn_logged, turn, __ATOMIC_RELEASE);
}
/* Record: logs a turn outside a call. */
void log_turn(struct context *context, u16 kind, u64 turn);
void log_turn_with(struct context *context, u8 flags, u16 kind, u64 turn);
/* Record: gives up the baton. */
void baton_release(struct context *context);
/* Record: returns whether a thread waits for the baton. */
static inline u32 baton_is_wanted(const struct context *context)
{
	return __atomic_load_n(&context->process->domain->waiters, __ATOMIC_RELAXED) != 0;
}
/* Record, before the baton is released: a waiting thread goes first, if there is one. Returns
 * whether there is. The thread sleeps meanwhile, so it need not yield its core: others might keep
 * that for long. */
u32 baton_give_way(struct context *context);
/* Record, while the baton is wanted: returns whether it may be lent around a call that returns
 * soon, in place of releasing it. */
u32 baton_may_lend(struct context *context);
/* Lends the baton. Returns 0 if it was lent too often in this turn. After 1, baton_take_back must
 * follow. */
u32 baton_lend(struct context *context);
/* Takes the lent baton back. Returns as baton_acquire. */
u32 baton_take_back(struct context *context, u64 *turn);
void baton_keep_alone(struct context *context, u32 alone);
/* Record: returns 1 if the holder changed. Then the caller logs the turn. */
u32 baton_acquire(struct context *context, u64 *turn);
/* Record: the two steps of baton_acquire, for a domain that is not yet the process's. */
void baton_obtain(struct context *context, struct domain *domain);
u32 baton_take(struct context *context, struct domain *domain, u64 *turn);
/* Record: merges a domain whose baton the thread holds into the shared domain. */
void baton_merge(struct domain *domain);
/* Record, called by the holder: returns whether threads that make calls share the baton among
 * themselves. If so, sets `now`. */
u32 baton_has_credit(struct domain *domain, u64 *now);
/* Record: called when a signal was deferred. */
void baton_signalled(struct context *context);
/* Takes the baton, which the thread does not hold. */
void baton_enter_section(struct context *context);
/* Gives up the baton. */
void baton_leave_section(struct context *context);
/* Record: takes the baton without beginning a turn. */
void baton_lock(struct context *context);
void baton_unlock(struct context *context);
/* Record: turns baton_lock into a section after all. */
void baton_lock_is_section(struct context *context);

#endif
