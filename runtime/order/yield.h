/* What yield.c offers. */
#ifndef RETAKE_ORDER_YIELD_H
#define RETAKE_ORDER_YIELD_H
#include "contract/context.h"

/* Record: lets those who waited long go first. */
void baton_yield(struct context *context);
/* Record, before the process ends: threads that have printed shall be able to log it. */
void baton_await_printers(struct context *context);
/* Record, chaos: on the way back to the program's code. */
void baton_leave(struct context *context);
/* Record, at a passage: others go first, if there are any. 1: the log says so. */
u32 baton_give(struct context *context, u64 passages);
/* At a forced point whose event has FORCED_TURN. */
void baton_offer(struct context *context);

#endif
