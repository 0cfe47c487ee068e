/* Replay: ends turns, and wakes the threads that wait for the next ones. Any stack. */
#include "log/gate.h"
#include "base/capabilities.h"
#include "base/futex.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "gen/numbers.h"
#include "log/settle.h"

/* A waiting thread adds itself to the gate's count before it checks `completed` for the last time,
 * so no wake is lost. */
void turn_complete(struct context *context)
{
	struct domain *domain = context->domain;
	if (!domain || !context->turn)
		return;
	struct turn_gate *next = gate_of(domain, context->turn + 1);
	__atomic_store_n(&domain->completed, context->turn, __ATOMIC_SEQ_CST);
	context->turn = 0;
	if (!__atomic_load_n(&next->waiters, __ATOMIC_SEQ_CST))
		return;
	__atomic_add_fetch(&next->word, 1, __ATOMIC_SEQ_CST);
	futex_wake(&next->word, 0x7fffffff);
}

void progress_begin(struct context *context)
{
	struct progress *progress = progress_of(context->slot->stream);
	progress->context = context;
	if (context->sections == SECTIONS_SHORT)
		context->quick =
			(struct quick){.is_on = QUICK_REPLAYED, .published = &progress->operations};
	__atomic_store_n(&progress->operations, context->operations + 1, __ATOMIC_RELEASE);
	futex_wake((u32 *)&progress->operations, 0x7fffffff);
}

void progress_create(struct context *context)
{
	context->process->progress_mapped = 1;
	sys6(NR_mmap, PROGRESS, MAX_ORDERED_STREAMS * sizeof(struct progress),
		PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
		~0UL, 0);
	if (settles(context))
		settle_create(context);
	progress_begin(context);
}

static void progress_end(struct context *context)
{
	struct progress *progress = progress_of(context->slot->stream);
	__atomic_store_n(&progress->operations, ~0UL, __ATOMIC_RELEASE);
	futex_wake((u32 *)&progress->operations, 0x7fffffff);
}

void stream_ended(struct context *context)
{
	/* Of a recording that was cut off, other threads' streams may tell of later operations. */
	if (context->process->progress_mapped && !streams_are_cut())
		progress_end(context);
	if (settles(context))
		settle_end(context);
	__atomic_store_n(&context->slot->state, SLOT_EXITED, __ATOMIC_RELEASE);
}

/* While a debugger inspects the process, the process stands still and this clock does not count. */
static u64 patience_clock(void)
{
	if (!HEADER->turn_patience_ns)
		return 0;
	return settled() ? computed_ns() : now_ns();
}

/* Threads that race may wait for each other in a way that the recorded ones did not. A copy of the
 * process has used less processor time than the process, so the clock may go back. */
u64 patience_spent(struct patience *patience, u64 progress)
{
	u64 now = patience_clock();
	if (progress != patience->progress || !patience->since_ns || now < patience->since_ns)
		*patience = (struct patience){now, progress};
	u64 waited = now - patience->since_ns;
	return waited > HEADER->turn_patience_ns ? waited : 0;
}
