/* What other threads must know when a process ends: its own threads, and those that take turns with
 * it. Private stack. */
#include "order/ending.h"
#include "base/robust.h"
#include "base/state.h"
#include "log/end.h"
#include "log/ring.h"
#include "order/baton.h"
#include "order/domain.h"

/* Marks threads that still run somewhere: they will die without logging anything. A thread that is
 * no longer counted may be on its way out. */
static void mark_siblings_dying(struct context *context)
{
	u32 used = slots_used();
	if (answers() || (context->process->thread_count <= 1 && !context->process->domain))
		return;
	baton_keep_alone(context, 1);
	for (u32 i = 0; i < used; i++) {
		struct slot *slot = &HEADER->slots[i];
		u32 live = SLOT_LIVE;
		if (slot != context->slot && slot->pid == context->slot->pid)
			__atomic_compare_exchange_n(&slot->state, &live, SLOT_DYING, 0,
				__ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&HEADER->dying, 1, __ATOMIC_RELEASE);
	ring_drain();
}

static void tell_others(struct context *context)
{
	mark_siblings_dying(context);
	baton_end_process(context);
	slot_exited(context);
}

void process_ends(struct context *context, u32 status)
{
	memory_left(context);
	if (answers() && context->process->thread_count > 1)
		end_process(context, status);
	tell_others(context);
}

void die_by_signal(struct context *context, u32 number)
{
	if (answers())
		end_by_signal(context, number);
	context->exiting = 1;
	tell_others(context);
	kill_self(number);
}
