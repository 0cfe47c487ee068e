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
/* Of a turn taken now. Each one says whose it is: another thread may have made the process join
 * others. */
static inline u16 turn_kind(const struct context *context)
{
	return shares_memory(context->domain) ? TURN_SHARED : TURN_AGAIN;
}
/* Record: its event is in the stream. */
static inline void note_turn(struct context *context, u64 turn)
{
	context->turn = context->slot->baton.turn_logged = turn;
	context->turn_sections = context->slot->baton.turn_sections = 0;
}
/* Record: its event, outside a call. */
void log_turn(struct context *context, u16 kind, u64 turn);
void log_turn_with(struct context *context, u8 flags, u16 kind, u64 turn);
/* Record. */
void baton_release(struct context *context);
/* Record: somebody waits for it. */
static inline u32 baton_is_wanted(const struct context *context)
{
	return __atomic_load_n(&context->process->domain->waiters, __ATOMIC_RELAXED) != 0;
}
/* Record, while it is wanted: instead of releasing it around a call that is soon back it may be
 * lent. */
u32 baton_may_lend(struct context *context);
/* 0: it was too often. 1: baton_take_back is to follow. */
u32 baton_lend(struct context *context);
/* As baton_acquire. */
u32 baton_take_back(struct context *context, u64 *turn);
void baton_keep_alone(struct context *context, u32 alone);
/* Record: 1 when the holder changed: the caller logs the turn. */
u32 baton_acquire(struct context *context, u64 *turn);
/* Record: the two steps of baton_acquire, for a domain that is not yet the process's. */
void baton_obtain(struct context *context, struct domain *domain);
u32 baton_take(struct context *context, struct domain *domain, u64 *turn);
/* Record: a domain whose baton the thread has is part of another from here on. */
void baton_merge(struct domain *domain);
/* Record, the holder: those that make calls have the baton among themselves. `now`, if so. */
u32 baton_has_credit(struct domain *domain, u64 *now);
/* Record: a signal was put off. */
void baton_signalled(struct context *context);
/* It has not the baton, and gets it. */
void baton_enter_section(struct context *context);
/* It has, and gives it up. */
void baton_leave_section(struct context *context);
/* Record: nobody else has the baton, but it is no turn. */
void baton_lock(struct context *context);
void baton_unlock(struct context *context);
/* Record: it is, after all. */
void baton_lock_is_section(struct context *context);

#endif
