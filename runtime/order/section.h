/* What section.c offers. */
#ifndef RETAKE_ORDER_SECTION_H
#define RETAKE_ORDER_SECTION_H
#include "contract/context.h"

void section_enter(struct context *context); /* the runtime: a call */
void section_leave(struct context *context); /* the runtime: on the way back to the program, last of all */
void section_compare(struct context *context, u32 begins); /* the program, where the section is a compare-and-exchange */
void section_note_failed(struct context *context);
static inline void section_note(struct context *context) /* record: before whatever else goes into the stream */
{
	if (UNLIKELY(context->failed.site))
		section_note_failed(context);
}
void section_inherit(struct context *child); /* in a process of its own */

#endif
