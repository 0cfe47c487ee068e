/* How a thread begins that a call has made. Private stack. */
#include "calls/start.h"
#include "base/debugged.h"
#include "base/futex.h"
#include "base/interception.h"
#include "base/leave.h"
#include "base/stamp.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/trace_clock.h"
#include "base/user.h"
#include "calls/copied.h"
#include "calls/namespace.h"
#include "calls/thread_memory.h"
#include "gen/numbers.h"
#include "log/log.h"
#include "log/ring.h"
#include "mode/debug.h"
#include "order/baton.h"
#include "order/domain.h"
#include "order/section.h"
#include "signals/signal.h"

struct start_body {
	u32 pid, tid;
	u64 how, time_ns /* in a trace */;
};

void log_start(struct context *context, u64 how)
{
	struct slot *slot = context->slot;
	u32 parent = context->pid;
	context->pid = (u32)sys0(NR_getpid);
	context->tid = (u32)sys0(NR_gettid);
	slot->started_ns = now_ns();
	slot->ties = (how == START_VFORK ? TIE_PARENT : 0) |
		     (shares_memory(context->process->domain) ? TIE_MEMORY : 0);
	ring_begin(context);
	/* The supervisor finds the same value when it sees the first bytes of the stream. */
	slot->consumer.base = context->head;
	identify_thread(context, how != START_THREAD);
	u32 processor;
	struct start_body body = {context->pid, context->tid, how, 0};
	/* A trace is never replayed, and its readers need unique numbers. */
	if (traces())
		body = (struct start_body){slot->pid, slot->tid, how, trace_clock(&processor)};
	__atomic_store_n(&slot->state, SLOT_LIVE, __ATOMIC_RELEASE);
	if (how == START_FORK && logs() && copied_beside_others(context, parent))
		copied_log(context, parent,
			(struct event){0, EVENT_START, 0, 0, slot->parent_stream}, &body,
			sizeof body);
	else
		ring_event(context, EVENT_START, 0, 0, slot->parent_stream, &body, sizeof body);
}

void begin_stream(struct context *context, u64 how)
{
	struct slot *slot = context->slot;
	context->deferred_count = 0;
	context->temporary_active = 0;
	/* This is a copy of the parent's. The child has no turn, even if it ends before its first
	 * event. */
	context->turn = 0;
	context->goes_on = GOES_ON_NOT;
	context->event_count = context->pause_at = context->told_from = context->next_hash_event =
		0;
	context->caught_call = 0;
	context->robust_list = 0;
	context->chaos_state = 0;
	context->log = context->log_end = NULL;
	context->log_offset = 0;
	if (executes()) {
		log_start(context, how);
		baton_begin(context);
		return;
	}
	slot->pid = (u32)sys0(NR_getpid);
	slot->tid = (u32)sys0(NR_gettid);
	__atomic_store_n(&slot->state, SLOT_LIVE, __ATOMIC_RELEASE);
	const struct event *event = log_take(context, EVENT_START, 0);
	const struct start_body *body = (const struct start_body *)(event + 1);
	if (event->size < sizeof *event + sizeof *body)
		diverge(context, WHY_CORRUPT, event->size, 0);
	if (how == START_FORK)
		copied_restore(context, (const u8 *)(body + 1), body_end(event));
	context->pid = slot->recorded_pid = body->pid;
	context->tid = slot->recorded_tid = body->tid;
	if (how == START_THREAD)
		debug_event(DEBUG_THREAD_START, slot->stream);
	else
		debug_begin(context);
	baton_begin(context);
}

/* The start of a thread, or of a vfork child that lives in its parent's memory until it execs or
 * exits. clone_on_stack comes here, on the child's own region. */
void child_start(struct context *context);
void child_start(struct context *context)
{
	u64 stack[3] = {region_address(context->region) + REGION_ALTERNATE, 0,
		REGION_ALTERNATE_TOP - REGION_ALTERNATE};
	sys2(NR_sigaltstack, stack, NULL);
	arm_interception(context);
	begin_stream(context, context->is_thread ? START_THREAD : START_VFORK);
	set_kernel_mask(context, context->sigmask);
	/* Does the work of CLONE_CHILD_SETTID at an ordered point. The address may be invalid. */
	if (context->child_tid_address)
		copy_user((void *)context->child_tid_address, &context->tid, 4);
	leave(context);
	section_leave(context);
	restore_full(context);
}
