/* What settle.c offers. */
#ifndef RETAKE_LOG_SETTLE_H
#define RETAKE_LOG_SETTLE_H
#include "base/capabilities.h"
#include "base/state.h"

/* Settled replay: the thread is one of those of which one runs at a time. Processes that share
 * memory have but one order of turns, which does the same. */
static inline u32 settles(const struct context *context)
{
	return settled() && context->domain && context->domain != &HEADER->shared_domain;
}
/* Whether what a thread waits for has come. */
u32 has_come_for(const struct domain *domain, const struct awaits *awaits);
/* The process makes its first thread: this one runs. */
void settle_create(struct context *context);
/* A thread that is about to be made may run, in its turn. */
void settle_thread(struct context *child);
/* Another thread runs on, if one can. 0: all wait. */
u32 settle_hand_over(struct domain *domain);
/* The thread runs no more. */
void settle_end(struct context *context);

#endif
