/* Replay: turns that a thread lost when it came to a call, or inside the call. Private stack. */
#include "calls/turns.h"
#include "calls/futex_pi.h"
#include "log/window.h"
#include "mode/answer.h"
#include "mode/call.h"
#include "mode/console.h"
#include "order/turn.h"

/* Verifies the inputs of the call whose event comes next: other threads may change them before this
 * one gets its turn. */
static void verify_early(struct context *context)
{
	struct call call;
	call_begin(&call, context);
	futex_waits(&call);
	call_verify_early(&call);
}

/* Prints the call's output, which is in memory, because the holder of the turn may wait for it to
 * be printed. */
static void print_early(struct context *context)
{
	const struct event *event = log_peek(context);
	if (!event || event->kind != EVENT_CALL ||
		!(event->flags & (CALL_CONSOLE_OUT | CALL_CONSOLE_ERR)))
		return;
	console_replay(context, event);
	context->printed = 1;
}

void obey_turns(struct context *context)
{
	for (;;) {
		const struct event *event = log_peek(context);
		if (LIKELY(!event || event->kind != EVENT_TURN))
			return;
		struct turn_event next = turn_take(context);
		if (next.flags & TURN_IN_CALL)
			verify_early(context);
		turn_give_up(context, &next);
		print_early(context);
		turn_await(context, &next);
	}
}
