/* What images of recorded processes ask of threads: what of one only the processor has. */
#ifndef RETAKE_BASE_IMAGE_H
#define RETAKE_BASE_IMAGE_H
#include "base/shared.h"
#include "base/state.h"

void image_keep_registers(struct context *context);

/* The thread may wait from here on, and another one take an image meanwhile. `goes_on`: how it
 * goes on from that. */
static inline void image_note(struct context *context, u32 goes_on)
{
	if (LIKELY(!HEADER->images_wanted) || context->is_guest)
		return;
	context->goes_on = goes_on;
	if (context->process->domain)
		image_keep_registers(context);
}

/* A program begins, or a copy of a process does. */
static inline void image_program(struct context *context)
{
	context->process->images_seen = HEADER->images_wanted;
	context->process->hides_memory = 0;
	context->process->program_stream = context->slot->stream;
	context->process->program_events = context->event_count;
}

#endif
