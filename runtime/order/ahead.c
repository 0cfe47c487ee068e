/* Replay: looks ahead in a stream, on the way back to the program's code, for the last thing that
 * the thread did before its turn was over or before it was killed. Private stack. */
#include "order/ahead.h"
#include "base/capabilities.h"
#include "base/state.h"
#include "log/end.h"
#include "log/gate.h"
#include "log/window.h"
#include "order/after.h"
#include "order/waiting.h"

/* The thread was killed while it computed, and its stream ends here. It stops counting as a thread
 * of the process, so the thread that ends the process does not wait for it. */
static void leave_behind(struct context *context)
{
	u32 *count = &context->process->thread_count;
	for (u32 seen = *count; seen > 1;)
		if (__atomic_compare_exchange_n(
			    count, &seen, seen - 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			context->gone = 1;
			stream_ended(context);
			return;
		}
	end_of_stream(context);
}

void look_ahead(struct context *context)
{
	const struct event *event = log_peek(context);
	if (context->in_section || !turn_is_over(context))
		return;
	turn_ends(context);
	if (context->gone || (event && event->kind != EVENT_END) ||
		context->operations < operations_at_end(context, event))
		return;
	if (settled())
		end_of_stream(context);
	leave_behind(context);
}
