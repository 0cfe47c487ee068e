/* Replay: the next event of a stream, and the report if something else happens. Private stack. */
#include "log/log.h"
#include "base/debugged.h"
#include "base/sys.h"
#include "gen/numbers.h"
#include "log/end.h"
#include "log/request.h"
#include "log/ring.h"
#include "log/window.h"

static u64 event_index(struct context *context) { return context->event_count; }

const struct event *log_take(struct context *context, u8 kind, u16 number)
{
	const struct event *event = log_peek(context);
	if (UNLIKELY(!event))
		end_of_stream(context);
	if (UNLIKELY(event->kind == EVENT_END))
		end_of_stream(context);
	if (UNLIKELY(event->kind != kind))
		diverge(context, WHY_KIND, event->kind, kind);
	if (UNLIKELY(event->number != number))
		diverge(context, WHY_NUMBER, event->number, number);
	log_consume(context, event);
	return event;
}

void log_stand_at(struct context *context)
{
	struct slot *slot = context->slot;
	slot->divergence.event = event_index(context);
	slot->divergence.offset = context->log_offset;
	slot->divergence.number = context->number;
	memcpy(slot->divergence.registers, &context->regs, sizeof context->regs);
}

/* Reports to the supervisor what was expected and what happened. The supervisor then stops
 * everything. */
void diverge(struct context *context, u64 why, u64 expected, u64 actual)
{
	struct slot *slot = context->slot;
	log_stand_at(context);
	slot->divergence.why = why;
	slot->divergence.expected = expected;
	slot->divergence.actual = actual;
	u64 arguments[6] = {context->regs.rdi, context->regs.rsi, context->regs.rdx,
		context->regs.r10, context->regs.r8, context->regs.r9};
	memcpy(slot->divergence.arguments, arguments, sizeof arguments);
	request(context, REQUEST_DIVERGED, 0, 0, 0);
	for (;;)
		sys1(NR_exit_group, 125);
}
