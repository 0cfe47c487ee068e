/* What section.c offers. */
#ifndef RETAKE_ORDER_SECTION_H
#define RETAKE_ORDER_SECTION_H
#include "contract/context.h"

/* The runtime: a call. */
void section_enter(struct context *context);
/* The runtime: on the way back to the program, last of all. */
void section_leave(struct context *context);
/* The program, where the section is a compare-and-exchange. */
void section_compare(struct context *context, u32 begins);
void section_note_failed(struct context *context);
/* Record: before whatever else goes into the stream. */
static inline void section_note(struct context *context)
{
	if (UNLIKELY(context->failed.site))
		section_note_failed(context);
}
/* In a process of its own. */
void section_inherit(struct context *child);

#endif
