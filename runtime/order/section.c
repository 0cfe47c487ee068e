/* Sections: what is in order under the sync policy. Private stack.
 *
 * Threads run user code side by side. A thread has the baton only in sections: in the runtime, for
 * a call; in atomic instructions and in functions of the C library that synchronise threads, where
 * stubs say so (docs/PATCHING.md). So a program whose threads synchronise by these means only, and
 * otherwise share no memory that one of them writes, does the same at replay; others may diverge,
 * and replay says so (CASTOR, section 4).
 *
 * A section makes no event of its own. A TURN event that begins one says how many sections its
 * thread ended in the turn before: at replay that turn is over as soon as so many have ended, not
 * only where the thread comes to its next section, which may be long after. */
#include "order/section.h"
#include "base/state.h"
#include "base/status.h"
#include "log/end.h"
#include "log/log.h"
#include "log/ring.h"
#include "order/baton.h"
#include "order/turn.h"

/* Replay: a thread was killed while it computed, and its stream ends here. It is left behind: the
 * thread that ends the process no longer waits for it. */
static void leave_behind(struct context *context)
{
	u32 *count = &context->process->thread_count;
	for (u32 seen = *count; seen > 1;)
		if (__atomic_compare_exchange_n(
			    count, &seen, seen - 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			context->gone = 1;
			__atomic_store_n(&context->slot->state, SLOT_EXITED, __ATOMIC_RELEASE);
			return;
		}
	end_of_stream(context);
}

/* Replay: on the way back to the program's code. */
static void look_ahead(struct context *context)
{
	const struct event *event = log_peek(context);
	if (context->in_section || !turn_is_over(context))
		return;
	turn_complete(context);
	if (context->gone || (event && event->kind != EVENT_END))
		return;
	if (settled())
		end_of_stream(context);
	leave_behind(context);
}

/* The memory that was to be exchanged cannot be written. */
static void compare_faulted(struct context *context)
{
	context->comparing = 0;
	context->in_section = 0;
	if (recording())
		baton_unlock(context);
}

void section_enter(struct context *context)
{
	section_note(context);
	if (UNLIKELY(context->comparing) && !recording())
		/* The recorded thread tried on, and had its way. */
		diverge(context, WHY_SECTIONS, 1, 0);
	if (UNLIKELY(context->sections) && !context->in_section && domain_of(context))
		baton_enter_section(context);
}

void section_leave(struct context *context)
{
	if (LIKELY(!context->sections) || !domain_of(context))
		return;
	if (UNLIKELY(context->comparing))
		compare_faulted(context);
	if (context->in_section && !context->section_depth)
		baton_leave_section(context);
	if (!recording())
		look_ahead(context);
}

/* ---- compare and exchange ----
 *
 * What it compares with was read before, outside any section, so at replay another one may fail.
 * But one that fails changes nothing. If the program tries again with what it saw, that counts as
 * one section with the last, which succeeds: at replay it may fail in its turn, and the thread
 * keeps the turn until it has tried again. If the program does something else, what it saw is
 * logged, and at replay it sees that. */

#define ZERO_FLAG 0x40UL
struct compare_body {
	u64 rdx, eflags, sections /* that had ended in the thread's turn */;
};

void section_note_failed(struct context *context)
{
	const struct failed *failed = &context->failed;
	struct compare_body body = {failed->rdx, failed->eflags & STATUS_FLAGS, failed->sections};
	ring_event(context, EVENT_COMPARE, 0, 0, (i64)failed->rax, &body, sizeof body);
	context->failed.site = 0;
}

static void compare_recorded(struct context *context, u32 begins)
{
	struct failed *failed = &context->failed;
	const struct registers *regs = &context->regs;
	if (begins) {
		if (UNLIKELY(failed->site) &&
			(failed->site != regs->rip || failed->rax != regs->rax))
			section_note_failed(context);
		baton_lock(context);
		context->comparing = regs->rip;
	} else if (regs->eflags & ZERO_FLAG) {
		failed->site = context->comparing = 0;
		baton_lock_is_section(context);
		baton_leave_section(context);
	} else {
		*failed = (struct failed){.site = context->comparing,
			.rax = regs->rax,
			.rdx = regs->rdx,
			.eflags = regs->eflags,
			.sections = context->turn_sections};
		context->comparing = 0;
		baton_unlock(context);
	}
}

static const struct compare_body *failed_here(
	const struct context *context, const struct event *event)
{
	const struct compare_body *body = (const struct compare_body *)(event + 1);
	if (!event || event->kind != EVENT_COMPARE || event->size < sizeof *event + sizeof *body ||
		body->sections != context->turn_sections)
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

static void compare_replayed(struct context *context, u32 begins)
{
	const struct event *event = log_peek(context);
	const struct compare_body *failed = failed_here(context, event);
	if (begins && failed && !context->comparing)
		see_failure(context, event, failed);
	else if (begins && !context->comparing) {
		baton_enter_section(context);
		context->comparing = context->regs.rip;
	} else if (!begins && context->regs.eflags & ZERO_FLAG) {
		context->comparing = 0;
		baton_leave_section(context);
		look_ahead(context);
	}
}

void section_compare(struct context *context, u32 begins)
{
	if (context->section_depth || !domain_of(context) || (!begins && !context->comparing))
		return;
	if (recording())
		compare_recorded(context, begins);
	else
		compare_replayed(context, begins);
}

/* Sections nest where functions that are sections call one another. One that was left by a jump
 * (longjmp, unwinding) is noticed where the next begins: no function begins above its caller. Both
 * come from entry.S, with the registers that compiled code does not keep. */
void section_begins(struct context *context);
void section_begins(struct context *context)
{
	if (UNLIKELY(context->section_depth && context->regs.rsp >= context->section_stack)) {
		context->section_depth = 0;
		section_leave(context);
	}
	if (context->section_depth++)
		return;
	context->section_stack = context->regs.rsp;
	section_enter(context);
}

void section_ends(struct context *context);
void section_ends(struct context *context)
{
	if (context->section_depth && !--context->section_depth)
		section_leave(context);
}

void section_inherit(struct context *child)
{
	child->section_depth = 0;
	child->in_section = 0;
	child->turn_sections = 0;
	child->comparing = child->failed.site = 0;
}
