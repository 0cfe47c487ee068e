/* Signals that are delivered after a section or an operation, under the sync policy. A thread that
 * computes makes no calls, where signals are delivered otherwise. But it may count or wait by
 * atomic instructions. So the end of each of these is a sync point, too, and the number of those
 * that the thread has ended tells replay the place. Signals come after what other threads did
 * before, which the handler may see. So the thread takes the baton for the delivery, as for a call.
 *
 * The handler must see the thread in the text, not in a stub. So delivery is possible only where
 * the stub leads straight back, as stubs of declared instructions do.
 *
 * Context: the functions in the header run in the master handler, all others on the private stack.
 */
#include "signals/behind.h"
#include "base/state.h"
#include "log/log.h"
#include "log/ring.h"
#include "order/baton.h"
#include "order/operation.h"
#include "order/policy.h"
#include "order/section.h"
#include "signals/signal.h"

#define JUMP 0xe9
#define JUMP_BYTES 5

/* The length of a no-operation as the assembler makes it from `.nops`; 0: none. */
static u64 bytes_of_nothing(const u8 *at)
{
	if (at[0] == 0x90)
		return 1;
	if (at[0] == 0x66 && at[1] == 0x90)
		return 2;
	if (at[0] == 0x0f && at[1] == 0x1f && at[2] == 0x00)
		return 3;
	return at[0] == 0x0f && at[1] == 0x1f && at[2] == 0x40 ? 4 : 0;
}

/* The address in the text to which a stub leads straight; 0: other instructions come first. */
static u64 leads_back_to(u64 address)
{
	u64 nothing;
	i32 distance;
	while ((nothing = bytes_of_nothing((const u8 *)address)))
		address += nothing;
	if (*(const u8 *)address != JUMP)
		return 0;
	memcpy(&distance, (const u8 *)address + 1, sizeof distance);
	return address + JUMP_BYTES + (u64)(i64)distance;
}

static u32 comes_now(const struct context *context, const struct event *event)
{
	if (executes())
		return context->deferred_count;
	return event && event->kind == EVENT_BEHIND && stands_at(context, event);
}

static void note(struct context *context)
{
	struct sections_body body = {context->turn_sections, context->operations};
	if (executes())
		ring_event(context, EVENT_BEHIND, 0, 0, 0, &body, sizeof body);
	else {
		log_take(context, EVENT_BEHIND, 0);
		context->sections &= ~(u32)SECTIONS_SIGNALLED;
	}
}

void signals_behind(struct context *context)
{
	const struct event *event = executes() ? NULL : log_peek(context);
	if (LIKELY(!comes_now(context, event)) || !runs_in_parallel(context) ||
		context->section_depth || context->in_section || context->comparing)
		return;
	u64 back = leads_back_to(context->regs.rip);
	if (!back)
		return;
	note(context);
	context->regs.rip = back;
	baton_enter_section(context);
	leave(context);
	section_leave(context);
}
