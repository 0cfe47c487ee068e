/* What window.c offers. */
#ifndef RETAKE_LOG_WINDOW_H
#define RETAKE_LOG_WINDOW_H
#include "contract/context.h"
#include "log/ring.h"

/* Gets the next window of the stream. Returns 0 if the stream ends here. The supervisor gives
 * windows that end where an event ends, with checked sizes. */
u32 log_next_window(struct context *context);
/* The next event is a BINDING event. A settled replay consumes it, and looks at the next one. */
const struct event *log_past_binding(struct context *context);
static inline void log_consume(struct context *context, const struct event *event)
{
	context->log += event->size;
	context->log_offset += event->size;
	count_event(context);
}
/* Returns the next event without consuming it, or NULL if the stream ends here. */
static inline const struct event *log_peek(struct context *context)
{
	if (UNLIKELY(context->log == context->log_end) && !log_next_window(context))
		return NULL;
	const struct event *event = (const struct event *)context->log;
	return UNLIKELY(event->kind == EVENT_BINDING) ? log_past_binding(context) : event;
}

#endif
