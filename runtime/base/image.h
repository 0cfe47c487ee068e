/* What threads keep for images of recorded processes: their state that only the processor has. */
#ifndef RETAKE_BASE_IMAGE_H
#define RETAKE_BASE_IMAGE_H
#include "base/shared.h"
#include "base/state.h"

void image_keep_registers(struct context *context);

/* From here on the thread may wait while another thread takes an image. `goes_on`: how the thread
 * goes on after that. */
static inline void image_note(struct context *context, u32 goes_on)
{
	if (LIKELY(!HEADER->images_wanted) || context->is_guest)
		return;
	context->goes_on = goes_on;
	if (context->process->domain)
		image_keep_registers(context);
}

/* Called when a program begins, or a copy of a process does. */
static inline void image_program(struct context *context)
{
	context->process->images_seen = HEADER->images_wanted;
	context->process->seen.program_stream = context->slot->stream;
	context->process->seen.program_events = context->event_count;
}

#endif
