/* What baton.c offers. */
#ifndef RETAKE_ORDER_BATON_H
#define RETAKE_ORDER_BATON_H
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "contract/context.h"

/* The first thing in a new stream that has a domain. */
void baton_begin(struct context *context);
/* A process that was forked off. */
void baton_inherit(struct context *child);
/* Record: from here on the process has a domain. */
void baton_create(struct context *context);
/* Record: from here on it is that of all processes that share memory. */
void baton_join(struct context *context);
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
/* Record: lets those who waited long go first. */
void baton_yield(struct context *context);
/* Record, before the process ends: threads that have printed shall be able to log it. */
void baton_await_printers(struct context *context);
/* Record, chaos: on the way back to the program's code. */
void baton_leave(struct context *context);
/* Record: a signal was put off. */
void baton_signalled(struct context *context);
/* Record, at a passage: others go first, if there are any. 1: the log says so. */
u32 baton_give(struct context *context, u64 passages);
/* At a forced point whose event has FORCED_TURN. */
void baton_offer(struct context *context);
void baton_end_process(struct context *context);
/* The thread will run no more user code. */
void baton_end(struct context *context);
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
