/* Entries to the runtime other than system calls. entry.S calls these with the program's registers
 * in the context. Private stack. */
#include "order/binding.h"
#include "order/compare.h"
#include "order/passage.h"
#include "order/section.h"
#include "place/forced.h"
#include "place/instruction.h"
#include "signals/behind.h"
#include "signals/signal.h"

/* Handles an instruction, a passage, the binding of a function, or one side of a
 * compare-and-exchange, by its number in entry.S. */
void runtime_instruction(struct context *context, u64 which);
void runtime_instruction(struct context *context, u64 which)
{
	if (which == 2) {
		emulate_cpuid(&context->regs); /* no event, so no sync point */
		return;
	}
	if (which == 5) {
		if (passage(context))
			leave(context);
		return;
	}
	if (which == 6) {
		binding(context);
		return;
	}
	if (which > 2) {
		if (compare(context, which == 3))
			signals_behind(context);
		return;
	}
	emulate_tsc(context, &context->regs, (u32)which);
	leave(context); /* a loop may have no other sync points */
	section_leave(context);
}

/* A section or an operation ends, with all registers saved. */
void runtime_section_ends(struct context *context);
void runtime_section_ends(struct context *context)
{
	if (section_ends(context))
		signals_behind(context);
}

/* The thread was stopped in its own code. */
void runtime_forced(struct context *context);
void runtime_forced(struct context *context)
{
	forced_stand(context);
	leave(context);
	section_leave(context);
}

/* The program faulted. Its handler runs now, or it dies at the faulting instruction. */
void runtime_fault(struct context *context);
void runtime_fault(struct context *context)
{
	struct deferred_signal signal = context->deferred[MAX_DEFERRED - 1];
	if (UNLIKELY(context->operating | context->comparing))
		compare_faulted(context);
	section_note(context);
	raise_fault(context, &signal, 0);
	section_leave(context);
}
