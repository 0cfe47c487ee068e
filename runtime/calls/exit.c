/* How threads and processes end. Private stack. */
#include "calls/exit.h"
#include "base/debugged.h"
#include "base/futex.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "calls/misc.h"
#include "calls/process.h"
#include "calls/robust.h"
#include "gen/numbers.h"
#include "log/hash.h"
#include "log/log.h"
#include "log/ring.h"
#include "mode/call.h"
#include "mode/look.h"
#include "mode/trace.h"
#include "order/baton.h"
#include "place/interception.h"

struct exit_body {
	u64 hash, pages;
};

/* The process ends: threads of it that are still somewhere will die without a word. One that is no
 * longer counted may be on its way out. */
void mark_siblings_dying(struct context *context)
{
	u32 used = slots_used();
	if (!recording() || (context->process->thread_count <= 1 && !context->process->domain))
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

void log_exit(struct context *context, u16 number, i64 status)
{
	struct exit_body body = {0, 0};
	u32 processor;
	if (tracing())
		/* A trace has no use for hashes, but for times. */
		body = (struct exit_body){trace_clock(&processor), processor};
	else
		final_hash(context, &body.hash, &body.pages);
	if (recording()) {
		ring_event(context, EVENT_EXIT, 0, number, status, &body, sizeof body);
	} else {
		const struct event *event = log_take(context, EVENT_EXIT, number);
		const struct exit_body *recorded = (const struct exit_body *)(event + 1);
		if (event->size < sizeof *event + sizeof body)
			diverge(context, WHY_CORRUPT, event->size, 0);
		if (event->value != status)
			diverge(context, WHY_RESULT, (u64)event->value, (u64)status);
		if (recorded->hash && body.hash && recorded->hash != body.hash)
			diverge(context, WHY_HASH, recorded->hash, body.hash);
	}
	context->slot->event_count = context->event_count;
}

void slot_exited(struct context *context)
{
	context->slot->ended_ns = now_ns();
	__atomic_store_n(&context->slot->state, SLOT_EXITED, __ATOMIC_RELEASE);
}

u32 handle_exit_group(struct call *call)
{
	if (!recording())
		debug_event(DEBUG_EXIT, (u32)call->arguments[0] & 0xff);
	look_end(call->context);
	if (recording())
		baton_await_printers(call->context);
	log_exit(call->context, (u16)call->number, (i32)call->arguments[0]);
	robust_release(call->context);
	if (!recording() && call->context->process->thread_count > 1)
		end_process(call->context, ((u32)call->arguments[0] & 0xff) << 8);
	mark_siblings_dying(call->context);
	baton_end_process(call->context);
	slot_exited(call->context);
	for (;;)
		sys1(NR_exit_group, call->arguments[0]);
}

/* What the kernel does for an ending thread, at a point in the order that replay can repeat. */
static void clear_thread_id(struct context *context)
{
	static const u32 zero = 0;
	if (!context->clear_tid)
		return;
	copy_user((void *)context->clear_tid, &zero, 4);
	if (recording())
		futex_wake((u32 *)context->clear_tid, 1);
}

u32 handle_exit(struct call *call)
{
	struct context *context = call->context;
	struct process *process = context->process;
	if (!recording())
		debug_event(process->thread_count > 1 ? DEBUG_THREAD_EXIT : DEBUG_EXIT,
			(u32)call->arguments[0] & 0xff);
	if (process->thread_count <= 1)
		look_end(context);
	log_exit(context, (u16)call->number, (i32)call->arguments[0]);
	robust_release(context);
	if (process->thread_count > 1) {
		clear_thread_id(context);
		__atomic_sub_fetch(&process->thread_count, 1, __ATOMIC_ACQ_REL);
		if (context->is_thread)
			region_return(context->region);
	}
	baton_end(context);
	slot_exited(context);
	for (;;)
		sys1(NR_exit, call->arguments[0]);
}

/* The kernel is told of a word of ours; the program's word is cleared by clear_thread_id. */
u32 handle_set_tid_address(struct call *call)
{
	call->context->clear_tid = call->arguments[0];
	call->actual[0] = (u64)&call->context->thread_alive;
	return handle_plainly(call);
}
