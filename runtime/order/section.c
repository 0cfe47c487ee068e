/* Sections: the parts of threads that are ordered under the sync policy. Private stack.
 *
 * Threads run user code in parallel. Only sections are ordered: calls that need the baton
 * (observe.c describes the others), and atomic instructions and functions of the C library that
 * synchronise threads, where stubs say so (docs/PATCHING.md). If the stub names the memory, the
 * section is an operation (operation.c, object.c). For all other sections a thread needs the baton.
 * So replay repeats a program whose threads synchronise only by these means, and otherwise share no
 * memory that any of them writes. Other programs may diverge, and replay reports it (CASTOR,
 * section 4).
 *
 * A section has no event of its own. A TURN event that begins a section holds the number of
 * sections that its thread ended in the turn before. So replay ends that turn after as many
 * sections, not only where the thread comes to its next section, perhaps long after. */
#include "order/section.h"
#include "base/state.h"
#include "log/window.h"
#include "order/baton.h"
#include "order/compare.h"
#include "order/object.h"
#include "order/observe.h"
#include "order/operation.h"
#include "order/policy.h"

/* A stub's operand where a thread is cancelled: the thread leaves whatever it is in. */
#define LEAVES (~0UL)

static void leave_operations(struct context *context)
{
	section_note(context);
	if (UNLIKELY(context->holds_object))
		object_leave(context);
}

void section_enter(struct context *context, u32 has_order, u32 may_be_parallel)
{
	leave_operations(context);
	if (!domain_of(context))
		return;
	if (has_order)
		call_begins(context);
	context->parallel = call_is_parallel(context, may_be_parallel);
	if (!context->parallel && !context->in_section)
		baton_enter_section(context);
}

void section_take(struct context *context)
{
	if (context->parallel)
		baton_enter_section(context);
	context->parallel = 0;
}

static u32 keeps_baton(const struct context *context)
{
	return context->section_depth && (!context->within.object || context->within.has_baton);
}

void section_leave(struct context *context)
{
	if (LIKELY(!context->sections) || !domain_of(context))
		return;
	if (UNLIKELY(context->operating | context->comparing))
		compare_faulted(context);
	if (context->in_section && !keeps_baton(context))
		baton_leave_section(context);
	if (!context->in_section)
		call_ends(context);
	if (context->within.object && !context->holds_object)
		object_enter(context);
	section_expect_signal(context);
}

static void enter_from_stub(struct context *context)
{
	leave_operations(context);
	if (context->sections && !context->in_section && domain_of(context))
		baton_enter_section(context);
}

static void leave_all(struct context *context)
{
	context->section_depth = 0;
	object_forget(context);
	section_leave(context);
}

/* Sections nest where functions that are sections call one another. If a jump (longjmp, unwinding)
 * has left a section, the next one that begins notices it: no function begins above its caller. All
 * callers come from entry.S, with the registers that compiled code does not keep. */
static u32 nest(struct context *context)
{
	if (UNLIKELY(context->section_depth && context->regs.rsp >= context->section_stack))
		leave_all(context);
	if (context->section_depth++)
		return 1;
	context->section_stack = context->regs.rsp;
	return 0;
}

static void begin(struct context *context)
{
	u64 operand = operand_take(context);
	if (operand && domain_of(context)) {
		section_note(context);
		if (operation_begin(context, operand))
			return;
	}
	if (!nest(context))
		enter_from_stub(context);
}

void section_begins(struct context *context);
void section_begins(struct context *context)
{
	begin(context);
	section_expect_signal(context);
}

u32 section_ends(struct context *context)
{
	if (context->operating) {
		operation_end(context);
		return 1;
	}
	if (!context->section_depth)
		return 0;
	if (context->section_depth == context->within.depth)
		object_end(context);
	if (--context->section_depth)
		return 0;
	section_leave(context);
	return 1;
}

void section_expect_signal(struct context *context)
{
	if (!obeys_order() || !runs_in_parallel(context))
		return;
	const struct event *event = log_peek(context);
	if (event && event->kind == EVENT_BEHIND)
		context->sections |= SECTIONS_SIGNALLED;
}

void object_begins(struct context *context);
void object_begins(struct context *context)
{
	u64 operand = operand_take(context);
	if (UNLIKELY(operand == LEAVES)) {
		leave_all(context);
		return;
	}
	nest(context);
	object_begin(context, operand, 0);
	section_expect_signal(context);
}

void condition_begins(struct context *context);
void condition_begins(struct context *context)
{
	u64 operand = operand_take(context);
	if (!nest(context))
		enter_from_stub(context);
	object_begin(context, operand, 1);
	section_expect_signal(context);
}

void section_interrupt(struct context *context, struct interrupted *interrupted)
{
	if (context->holds_object)
		object_leave(context);
	*interrupted = (struct interrupted){.within = context->within,
		.outer = context->outer,
		.stack = context->section_stack,
		.depth = context->section_depth};
	context->within = context->outer = (struct in_object){.object = 0};
	context->section_depth = 0;
}

void section_resume(struct context *context, const struct interrupted *interrupted)
{
	context->within = interrupted->within;
	context->outer = interrupted->outer;
	context->section_stack = interrupted->stack;
	context->section_depth = interrupted->depth;
}

void section_inherit(struct context *child)
{
	child->section_depth = child->holds_object = 0;
	child->within = child->outer = (struct in_object){.object = 0};
	child->in_section = 0;
	child->turn_sections = 0;
	child->comparing = 0;
	operations_inherit(child);
}
