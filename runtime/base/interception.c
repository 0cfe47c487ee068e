/* Asks the kernel and the processor to report system calls from unpatched code and reads of the
 * time-stamp counter. */
#include "base/interception.h"
#include "base/counter.h"
#include "base/shared.h"
#include "base/stamp.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/text.h"
#include "gen/numbers.h"

enum { PR_SET_TSC = 26, PR_TSC_ENABLE = 1, PR_TSC_SIGSEGV = 2 };

/* While the counter traps for one thread only, every switch to or from that thread changes a
 * control register. That costs a virtual machine an exit: 7 us. */
static void trap_counter(struct context *context, u32 wanted)
{
	if (context->counter_traps == wanted)
		return;
	u32 settable = traps_counter();
	if (wanted && executes() && !context->process->counter_compared) {
		if (settable && context->counter_traps == COUNTER_UNKNOWN)
			sys2(NR_prctl, PR_SET_TSC, PR_TSC_ENABLE);
		counter_compare(context->process);
	}
	context->counter_traps = wanted;
	stamps_begin(context);
	if (settable)
		sys2(NR_prctl, PR_SET_TSC, wanted ? PR_TSC_SIGSEGV : PR_TSC_ENABLE);
}

/* Dispatch makes every call slower, by a quarter on some processors. So a recorded thread has it
 * only while it can reach a `syscall` instruction: in unknown code, or in the restorer behind a
 * handler. Replay loses little time by it and keeps it on as a safeguard. */
void arm_interception(struct context *context)
{
	u32 has_unknown = !logs() || context->process->unknown_calls;
	u32 wanted = has_unknown || context->handler_depth || context->process->frames_kept;
	trap_counter(context, has_unknown);
	if (wanted == context->dispatched)
		return;
	context->dispatched = wanted;
	u64 start = wanted ? RUNTIME_TEXT : 0,
	    bytes = wanted ? (u64)runtime_text_end - RUNTIME_TEXT : 0;
	sys6(NR_prctl, 59 /* PR_SET_SYSCALL_USER_DISPATCH */, wanted, start, bytes, 0, 0);
}

void expect_returns(struct context *context)
{
	if (context->is_guest)
		PROCESS_INITIAL->frames_kept = 1;
	context->process->frames_kept = 1;
	arm_interception(context);
}

/* Called before such code can run. Other threads notice when they take the baton. */
void expect_untold(struct context *context, u32 because)
{
	if (context->process->domain && context->sections)
		HEADER->untold_late = because;
	if (context->is_guest)
		PROCESS_INITIAL->untold = because;
	context->process->untold = because;
}

void expect_unknown_calls(struct context *context)
{
	if (!context->process->untold)
		expect_untold(context, MADE_AT_RUN_TIME);
	if (context->is_guest)
		PROCESS_INITIAL->unknown_calls = 1;
	context->process->unknown_calls = 1;
	arm_interception(context);
}
