/* What section.c offers. */
#ifndef RETAKE_ORDER_SECTION_H
#define RETAKE_ORDER_SECTION_H
#include "contract/context.h"
#include "order/compare.h"

/* The runtime: a call. */
void section_enter(struct context *context);
/* The runtime: on the way back to the program, last of all. */
void section_leave(struct context *context);
/* Record: before whatever else goes into the stream. */
static inline void section_note(struct context *context)
{
	if (UNLIKELY(context->failed.site))
		compare_note_failed(context);
}
/* Replay: on the way back to the program's code. */
void section_look_ahead(struct context *context);
/* In a process or thread of its own. */
void section_inherit(struct context *child);

#endif
