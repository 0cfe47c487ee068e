/* What operation.c offers. */
#ifndef RETAKE_ORDER_OPERATION_H
#define RETAKE_ORDER_OPERATION_H
#include "contract/context.h"

/* Which memory the operation is on that a stub begins; 0: the stub orders it by the baton. */
static inline u64 operand_take(struct context *context)
{
	u64 operand = context->operand;
	context->operand = 0;
	return operand;
}
/* 1: it begins. 0: the process shares memory with others, and the baton orders its operations. */
u32 operation_begin(struct context *context, u64 operand);
void operation_end(struct context *context);
/* Replay: others may wait until the thread has ended so many. */
void operation_publish(struct context *context);
/* It did not come to its end: it faulted. Nobody sees that it had begun. */
void operation_abandon(struct context *context);
/* Record: as operation_begin, but nothing is logged yet. */
u32 operation_lock(struct context *context, u64 operand);
/* Record: logs behind whom the operation comes, whose clock is held. */
void operation_note(struct context *context);
/* Replay: as operation_begin, but it may be given up. */
u32 operation_is_next(struct context *context);
/* Record, in baton_join: behind all that the process's threads have done, before what they do
 * among the others. */
void operations_join(struct context *context, struct domain *domain);
/* In a process or thread of its own. */
void operations_inherit(struct context *child);

#endif
