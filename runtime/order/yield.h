/* What yield.c offers. */
#ifndef RETAKE_ORDER_YIELD_H
#define RETAKE_ORDER_YIELD_H
#include "contract/context.h"

/* Record: lets threads that have waited long go first. */
void baton_yield(struct context *context);
/* Record, before the process ends: gives threads that have printed the time to log it. */
void baton_await_printers(struct context *context);
/* Record, chaos: called on the way back to the program's code. */
void baton_leave(struct context *context);
/* Record, at passage number `count` of a kind (`enum passage_kind`): lets waiting threads go first.
 * Does nothing if there are none, unless the thread spins and has signals to deliver. Returns 1 if
 * the log has the passage. */
u32 baton_give(struct context *context, u16 kind, u64 count);
/* Called at a forced point whose event has FORCED_TURN. */
void baton_offer(struct context *context);

#endif
