/* What forcing.c offers. */
#ifndef RETAKE_ORDER_FORCING_H
#define RETAKE_ORDER_FORCING_H
#include "base/shared.h"
#include "base/state.h"

/* Returns 0 if the state is not `from`. */
static inline u32 forcing_change(struct context *context, u32 from, u32 to)
{
	return __atomic_compare_exchange_n(
		&context->slot->forcing.state, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}
/* Record, in the handler: a signal was deferred. */
void force_want(struct context *context, u32 in_runtime);
/* Record: returns once no forcing signal is on its way. */
void force_idle(struct context *context);
/* Record: the same, and none will come until force_open. */
void force_close(struct context *context);
void force_open(struct context *context);

#endif
