/* What chaos.c offers. */
#ifndef RETAKE_ORDER_CHAOS_H
#define RETAKE_ORDER_CHAOS_H
#include "contract/context.h"

/* A random number below `limit`. */
u64 chaos_below(struct context *context, u64 limit);
u32 chaos_one_in(struct context *context, u32 count);
void chaos_new_priority(struct context *context);
void chaos_delay(struct context *context);
/* Sync policy: called before an operation. Threads run in parallel, so others come first if this
 * one waits where it is about to synchronise. */
void chaos_before_operation(struct context *context);
/* Returns whether the thread has the highest priority of all that wait for the same baton. */
u32 chaos_goes_first(struct context *context);

#endif
