/* What behind.c offers. */
#ifndef RETAKE_SIGNALS_BEHIND_H
#define RETAKE_SIGNALS_BEHIND_H
#include "contract/context.h"

/* Record, in the handler: a signal was put off. */
static inline void signals_want(struct context *context)
{
	if (!context->sections)
		return;
	context->sections |= SECTIONS_SIGNALLED;
	context->quick.is_on = QUICK_NONE;
}
/* Record: none is put off any more. */
static inline void signals_settle(struct context *context)
{
	context->sections &= ~(u32)SECTIONS_SIGNALLED;
	context->quick.domain = NULL; /* is looked at again */
}
/* A section or an operation is over; all registers are saved, and the thread goes on behind it. */
void signals_behind(struct context *context);

#endif
