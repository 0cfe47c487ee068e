/* What section.c offers. */
#ifndef RETAKE_ORDER_SECTION_H
#define RETAKE_ORDER_SECTION_H
#include "contract/context.h"
#include "order/compare.h"

/* The runtime: a call. `has_order`: with what other threads do. Record, `may_be_parallel`: it
 * leaves alone what the threads of the process have in the runtime. */
void section_enter(struct context *context, u32 has_order, u32 may_be_parallel);
/* Record: the call is not made without the baton after all. */
void section_take(struct context *context);
/* The runtime: on the way back to the program, last of all. */
void section_leave(struct context *context);
/* Before whatever else the thread does that is in order. */
static inline void section_note(struct context *context)
{
	if (UNLIKELY(context->failed.site | context->comparing))
		compare_given_up(context);
}
/* In a process or thread of its own. */
void section_inherit(struct context *child);

#endif
