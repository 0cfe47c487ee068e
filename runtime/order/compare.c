/* Compare-and-exchange under the sync policy. Private stack.
 *
 * A failed compare-and-exchange changes nothing, so it is no section. Its event holds the value
 * that it saw, and at replay the thread gets that value without executing the instruction. Each
 * failure is logged, even of attempts in a row, because the program may count them.
 *
 * The program may have read the value it expects earlier, outside any section. So an attempt that
 * succeeded may fail at replay. Then the program tries again with the value it saw. All these
 * attempts and the last one, which succeeds, are one section, and the thread keeps the turn until
 * then. The same holds for operations, which clocks order in place of the baton. */
#include "order/compare.h"
#include "base/state.h"
#include "base/status.h"
#include "log/log.h"
#include "log/ring.h"
#include "order/ahead.h"
#include "order/baton.h"
#include "order/operation.h"
#include "order/policy.h"

#define ZERO_FLAG 0x40UL
struct compare_body {
	/* The last two: sections of the thread in its turn, and all operations of the thread. */
	u64 rdx, eflags, sections, operations;
};

/* ---- record ---- */

static void begin_recorded(struct context *context, u64 operand)
{
	if (!operand || !operation_lock(context, operand))
		baton_lock(context);
	context->comparing = context->regs.rip;
}

static void succeeded(struct context *context)
{
	if (context->operating) {
		operation_note(context);
		operation_end(context);
	} else {
		baton_lock_is_section(context);
		baton_leave_section(context);
	}
}

/* The thread only tried, so it gives up its place without a section or an operation. */
static void let_go(struct context *context)
{
	if (context->operating) {
		operation_note(context);
		operation_abandon(context);
	} else
		baton_unlock(context);
}

static void failed(struct context *context)
{
	const struct registers *regs = &context->regs;
	let_go(context);
	struct compare_body body = {.rdx = regs->rdx,
		.eflags = regs->eflags & STATUS_FLAGS,
		.sections = context->turn_sections,
		.operations = context->operations};
	ring_event(context, EVENT_COMPARE, 0, 0, (i64)regs->rax, &body, sizeof body);
}

static void end_recorded(struct context *context)
{
	context->comparing = 0;
	if (context->regs.eflags & ZERO_FLAG)
		succeeded(context);
	else
		failed(context);
}

/* ---- replay ---- */

static const struct compare_body *failed_here(
	const struct context *context, const struct event *event)
{
	const struct compare_body *body = (const struct compare_body *)(event + 1);
	if (!event || event->kind != EVENT_COMPARE || event->size < sizeof *event + sizeof *body ||
		body->sections != context->turn_sections || body->operations != context->operations)
		return NULL;
	return body;
}

/* Gives the thread the logged result, and skips its section. The byte before the instruction holds
 * the distance to the code behind the section. */
static void see_failure(
	struct context *context, const struct event *event, const struct compare_body *body)
{
	context->regs.rax = (u64)event->value;
	context->regs.rdx = body->rdx;
	context->regs.eflags =
		(context->regs.eflags & ~STATUS_FLAGS) | (body->eflags & STATUS_FLAGS);
	context->regs.rip += *((const u8 *)context->regs.rip - 1);
	log_take(context, EVENT_COMPARE, 0);
	look_ahead(context);
}

/* Returns 1 if the log says that the attempt failed. */
static u32 begin_replayed(struct context *context, u64 operand)
{
	if (context->comparing)
		return 0; /* another attempt */
	u32 operates = operand && operation_is_next(context);
	const struct event *event = log_peek(context);
	const struct compare_body *body = failed_here(context, event);
	if (body) {
		see_failure(context, event, body);
		return 1;
	}
	if (operates)
		context->operating = 1;
	else
		baton_enter_section(context);
	context->comparing = context->regs.rip;
	return 0;
}

static u32 end_replayed(struct context *context)
{
	if (!(context->regs.eflags & ZERO_FLAG))
		return 0;
	context->comparing = 0;
	if (context->operating) {
		operation_end(context);
		return 1;
	}
	baton_leave_section(context);
	look_ahead(context);
	return 1;
}

/* ---- both ---- */

void compare_faulted(struct context *context)
{
	if (context->operating)
		operation_abandon(context);
	else {
		context->in_section = 0;
		if (makes_order())
			baton_unlock(context);
	}
	context->comparing = 0;
}

void compare_given_up(struct context *context)
{
	if (obeys_order())
		/* The recorded thread tried again until it succeeded. */
		diverge(context, WHY_SECTIONS, 1, 0);
}

u32 compare(struct context *context, u32 begins)
{
	u64 operand = operand_take(context);
	if ((context->section_depth && !operand && !context->operating) || !domain_of(context) ||
		(!begins && !context->comparing))
		return 0;
	if (obeys_order())
		return begins ? begin_replayed(context, operand) : end_replayed(context);
	begins ? begin_recorded(context, operand) : end_recorded(context);
	return !begins;
}
