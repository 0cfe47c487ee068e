/* The count of rounds that a thread has spun: waited for another thread, and looked at memory again
 * and again. Stubs count the rounds, and enter the runtime once the highest byte of the count is
 * not 0. */
#ifndef RETAKE_BASE_ROUNDS_H
#define RETAKE_BASE_ROUNDS_H
#include "contract/context.h"

/* The count at which the runtime is entered. No thread makes so many rounds. */
#define ROUNDS_END (1UL << 56)
/* Record: the rounds in which a thread may find what it waits for before it looks whether others
 * want the baton. They take no longer than a hand-over. */
#define LEAST_ROUNDS 16UL
/* The same for a thread that shares no memory: it looks for signals. */
#define ROUNDS_ALONE 1024UL

static inline u64 rounds_so_far(const struct context *context)
{
	return (u64)(context->rounds - context->rounds_ahead);
}

/* The thread enters the runtime in its round number `last`. */
static inline void rounds_arm(struct context *context, u64 last)
{
	u64 passed = rounds_so_far(context);
	context->rounds_ahead = (i64)(ROUNDS_END - last);
	context->rounds = (i64)passed + context->rounds_ahead;
}

static inline void rounds_disarm(struct context *context)
{
	context->rounds = (i64)rounds_so_far(context);
	context->rounds_ahead = 0;
}

#endif
