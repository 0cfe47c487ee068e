/* What after.c offers. */
#ifndef RETAKE_ORDER_AFTER_H
#define RETAKE_ORDER_AFTER_H
#include "contract/context.h"

/* Record: what the thread does from here on comes after the stream's first `operations`. `stream`
 * is as in a lock. `clock`: CLOCKS if no clock showed it. */
void note_after(struct context *context, u32 stream, u64 operations, u32 clock);
/* Record: the flag TURN_OVER for an event, or 0. */
u8 lost_turn(const struct context *context);
/* Replay: waits for all operations that the thread's next operation comes after. */
void after_await(struct context *context);
/* Replay: the same, only for what a call has shown the thread. */
void after_await_observed(struct context *context);
/* Ends the thread if its stream is over and the recorded thread came no further. */
void end_if_over(struct context *context);
/* Replay: the number of operations that the thread ended before its stream ends. */
u64 operations_at_end(struct context *context, const struct event *event);

#endif
