/* What settle.c offers. */
#ifndef RETAKE_LOG_SETTLE_H
#define RETAKE_LOG_SETTLE_H
#include "base/capabilities.h"
#include "base/state.h"

/* Settled replay: returns whether one thread at a time of this process runs. A process that shared
 * memory before it had threads has only an order of turns, which does the same. */
static inline u32 settles(const struct context *context)
{
	return settled() && context->process->progress_mapped;
}
/* Returns whether the turn or operation that the thread waits for has come. */
u32 has_come_for(const struct context *context, const struct awaits *awaits);
/* The recording was cut off, and all threads wait: lets the first one run, which ends. Returns 0 if
 * that is the caller. */
u32 settle_let_first_end(const struct context *context);
/* Returns whether a thread of the process waits for a turn of another process. */
u32 settle_waits_for_others(void);
/* The process makes its first thread, and this thread runs. */
void settle_create(struct context *context);
/* Lets a new thread wait until it may run. Called before the thread is made. */
void settle_thread(struct context *child);
/* Lets another thread run, if one can. Returns 0 if all wait. */
u32 settle_hand_over(struct domain *domain);
/* The thread runs no more. */
void settle_end(struct context *context);

#endif
