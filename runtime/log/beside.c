/* The other threads of a process, while one of them has the baton. Private stack.
 *
 * A thread that waits in a call has no baton, and the kernel writes the call's outputs whenever
 * they come. At replay these are written in the thread's next turn. All else in memory is the same
 * then, but for what is below a stack pointer: nobody reads that any more. */
#include "log/beside.h"
#include "base/capabilities.h"
#include "gen/numbers.h"
#include "log/items.h"
#include "log/log.h"

#define RED_ZONE 128UL
/* What the kernel and the runtime may leave below a stack pointer. */
#define DEAD_BYTES 0x10000UL

static void visit_one(struct sink *sink, const struct context *one)
{
	const struct registers *regs = &one->regs;
	u64 arguments[6] = {regs->rdi, regs->rsi, regs->rdx, regs->r10, regs->r8, regs->r9};
	const struct call_row *row = find_row((u32)regs->rax, arguments);
	if (row)
		visit_begun(sink, row, arguments);
}

void visit_beside(struct sink *sink, const struct context *context, u32 pid)
{
	u64 pointee = sink->pointee_before;
	for (u32 i = 0; i < context->process->region_count; i++) {
		if (!is_beside(context, context_of(i), pid))
			continue;
		sink->pointee_before = pointee;
		visit_one(sink, context_of(i));
	}
}

/* The child that a thread waits for after vfork changes the memory. */
static u32 may_wait_for_guest(const struct context *one)
{
	u64 number = one->regs.rax;
	return number == NR_vfork || number == NR_clone || number == NR_clone3;
}

static void add_stack(struct places *places, const struct context *one)
{
	u64 top = one->regs.rsp - RED_ZONE;
	add_place(places, PAGE_FLOOR(top) - DEAD_BYTES, top);
}

void places_beside(struct context *context, struct places *places)
{
	struct sink sink = {.mode = SINK_PLACES,
		.context = context,
		.pointee_before = LARGEST_MOVE,
		.places = places};
	const struct domain *domain = answers() ? context->domain : context->process->domain;
	u32 is_shared = domain == &HEADER->shared_domain;
	places->count = places->unknown = 0;
	for (u32 i = 0; i < context->process->region_count; i++) {
		const struct context *one = context_of(i);
		if (!is_beside(context, one, context->pid))
			continue;
		places->unknown |= may_wait_for_guest(one);
		add_stack(places, one);
	}
	if (places->count && (is_shared || (logs() && domain->lock != as_holder(context))))
		places->unknown = 1;
	visit_beside(&sink, context, context->pid);
}
