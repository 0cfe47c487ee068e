/* What operation.c offers. */
#ifndef RETAKE_ORDER_OPERATION_H
#define RETAKE_ORDER_OPERATION_H
#include "contract/context.h"
#include "contract/events.h"

/* The memory of the operation that a stub begins; 0: the baton orders it. */
static inline u64 operand_take(struct context *context)
{
	u64 operand = context->operand;
	context->operand = 0;
	return operand;
}
/* Record: at least the size of an event with a small body. A thread reserves it where its ring must
 * not be full later. */
#define EVENT_ROOM 64
/* Replay: returns whether an event with a `sections_body` was logged where the thread stands. */
static inline u32 stands_at(const struct context *context, const struct event *event)
{
	const struct sections_body *body = (const struct sections_body *)(event + 1);
	return event->size >= sizeof *event + sizeof *body &&
	       body->sections == context->turn_sections && body->operations == context->operations;
}
/* Begins an operation and returns 1. Returns 0 if the baton has to order it, because the process
 * shares memory with others. */
u32 operation_begin(struct context *context, u64 operand);
void operation_end(struct context *context);
/* Replay: shows other threads, which may wait for it, how many operations the thread has ended. */
void operation_publish(struct context *context);
/* The operation faulted before its end. No other thread sees that it had begun. */
void operation_abandon(struct context *context);
/* Record: as operation_begin, but logs nothing yet. */
u32 operation_lock(struct context *context, u64 operand);
/* Record: logs what the operation comes after. Its clock is held. */
void operation_note(struct context *context);
/* Replay: as operation_begin, but the operation may still be given up. */
u32 operation_is_next(struct context *context);
/* Record, in baton_join: orders the move to the shared domain after all that the process's threads
 * have done, and before what they do in the new domain. */
void operations_join(struct context *context, struct domain *domain);
/* Called in a new process or thread. */
void operations_inherit(struct context *child);

#endif
