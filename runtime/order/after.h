/* What after.c offers. */
#ifndef RETAKE_ORDER_AFTER_H
#define RETAKE_ORDER_AFTER_H
#include "contract/context.h"

/* Record: what the thread does from here on comes behind so many operations of a stream, which is
 * given as a lock has it. `clock`: CLOCKS if it was none. */
void note_after(struct context *context, u32 stream, u64 operations, u32 clock);
/* Replay: waits for those behind whom the thread's next operation comes. */
void after_await(struct context *context);
/* For those that a call has shown it. */
void after_await_observed(struct context *context);
/* Whether its stream is over, and the recorded thread came no further: then it ends. */
void end_if_over(struct context *context);
/* Replay: how many operations the thread ended before its stream does. */
u64 operations_at_end(const struct event *event);

#endif
