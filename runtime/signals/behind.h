/* What behind.c offers. */
#ifndef RETAKE_SIGNALS_BEHIND_H
#define RETAKE_SIGNALS_BEHIND_H
#include "contract/context.h"

/* Record, in the handler: a signal was deferred. */
static inline void signals_want(struct context *context)
{
	if (!context->sections)
		return;
	context->sections |= SECTIONS_SIGNALLED;
	context->quick.is_on = QUICK_NONE;
}
/* Record: no signal is deferred any more. */
static inline void signals_settle(struct context *context)
{
	context->sections &= ~(u32)SECTIONS_SIGNALLED;
	context->quick.domain = NULL; /* makes the thread check the domain again */
}
/* Called after a section or an operation, with all registers saved. The thread goes on behind it.
 */
void signals_behind(struct context *context);

#endif
