/* Compare-and-exchange, under the sync policy. Private stack.
 *
 * What it compares with was read before, outside any section, so at replay another one may fail.
 * But one that fails changes nothing. If the program tries again with what it saw, that counts as
 * one section with the last, which succeeds: at replay it may fail in its turn, and the thread
 * keeps the turn until it has tried again. If the program does something else, what it saw is
 * logged, and at replay it sees that. All of that holds for operations, too, which clocks order
 * instead of the baton. */
#include "order/compare.h"
#include "base/state.h"
#include "base/status.h"
#include "log/log.h"
#include "log/ring.h"
#include "order/after.h"
#include "order/ahead.h"
#include "order/baton.h"
#include "order/operation.h"
#include "order/policy.h"

#define ZERO_FLAG 0x40UL
struct compare_body {
	/* Of the thread in its turn, and of the thread. */
	u64 rdx, eflags, sections, operations;
};

/* ---- record ---- */

static void note_failed(struct context *context)
{
	struct failed *failed = &context->failed;
	struct compare_body body = {
		failed->rdx, failed->eflags & STATUS_FLAGS, failed->sections, context->operations};
	failed->site = 0;
	if (failed->after_stream)
		note_after(context, failed->after_stream, failed->after, failed->clock);
	ring_event(context, EVENT_COMPARE, 0, 0, (i64)failed->rax, &body, sizeof body);
}

static void begin_recorded(struct context *context, u64 operand)
{
	const struct failed *failed = &context->failed;
	const struct registers *regs = &context->regs;
	if (UNLIKELY(failed->site) && (failed->site != regs->rip || failed->rax != regs->rax))
		note_failed(context);
	if (!operand || !operation_lock(context, operand))
		baton_lock(context);
	context->comparing = regs->rip;
}

/* Nobody has the right to go first that was there only to try. */
static void let_go(struct context *context)
{
	if (context->operating)
		operation_abandon(context);
	else
		baton_unlock(context);
}

static void succeeded(struct context *context)
{
	context->failed.site = 0;
	if (context->operating) {
		operation_note(context);
		operation_end(context);
	} else {
		baton_lock_is_section(context);
		baton_leave_section(context);
	}
}

static void failed_now(struct context *context, u64 site)
{
	const struct registers *regs = &context->regs;
	context->failed = (struct failed){.site = site,
		.rax = regs->rax,
		.rdx = regs->rdx,
		.eflags = regs->eflags,
		.sections = context->turn_sections};
	if (context->operating)
		operation_seen(context, &context->failed);
	let_go(context);
}

static void end_recorded(struct context *context)
{
	u64 site = context->comparing;
	context->comparing = 0;
	if (context->regs.eflags & ZERO_FLAG)
		succeeded(context);
	else
		failed_now(context, site);
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

/* The byte before the instruction says how far it is to what comes behind its section. */
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

static void begin_replayed(struct context *context, u64 operand)
{
	if (context->comparing)
		return; /* once more */
	u32 operates = operand && operation_is_next(context);
	const struct event *event = log_peek(context);
	const struct compare_body *failed = failed_here(context, event);
	if (failed) {
		see_failure(context, event, failed);
		return;
	}
	if (operates)
		context->operating = 1;
	else
		baton_enter_section(context);
	context->comparing = context->regs.rip;
}

static void end_replayed(struct context *context)
{
	if (!(context->regs.eflags & ZERO_FLAG))
		return;
	context->comparing = 0;
	if (context->operating) {
		operation_end(context);
		return;
	}
	baton_leave_section(context);
	look_ahead(context);
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
		/* The recorded thread tried on, and had its way. */
		diverge(context, WHY_SECTIONS, 1, 0);
	if (context->failed.site)
		note_failed(context);
}

void compare(struct context *context, u32 begins)
{
	u64 operand = operand_take(context);
	if ((context->section_depth && !operand && !context->operating) || !domain_of(context) ||
		(!begins && !context->comparing))
		return;
	if (makes_order())
		begins ? begin_recorded(context, operand) : end_recorded(context);
	else
		begins ? begin_replayed(context, operand) : end_replayed(context);
}
