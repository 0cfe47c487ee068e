/* What settle.c offers. */
#ifndef RETAKE_LOG_SETTLE_H
#define RETAKE_LOG_SETTLE_H
#include "base/capabilities.h"
#include "base/state.h"

/* Settled replay: the thread is one of those of which one runs at a time. A process that shared
 * memory before it had threads has but an order of turns, which does the same. */
static inline u32 settles(const struct context *context)
{
	return settled() && context->process->progress_mapped;
}
/* Whether what the thread waits for, or would, has come. */
u32 has_come_for(const struct context *context, const struct awaits *awaits);
/* Some thread of the process waits for a turn of another process. */
u32 settle_waits_for_others(void);
/* The process makes its first thread: this one runs. */
void settle_create(struct context *context);
/* A thread that is about to be made may run, in its turn. */
void settle_thread(struct context *child);
/* Another thread runs on, if one can. 0: all wait. */
u32 settle_hand_over(struct domain *domain);
/* The thread runs no more. */
void settle_end(struct context *context);

#endif
