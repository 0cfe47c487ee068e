/* How threads and processes end. Private stack. */
#include "base/debugged.h"
#include "base/futex.h"
#include "base/robust.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/trace_clock.h"
#include "base/user.h"
#include "calls/plain.h"
#include "calls/thread_memory.h"
#include "gen/numbers.h"
#include "log/end.h"
#include "log/hash.h"
#include "log/log.h"
#include "log/look.h"
#include "log/ring.h"
#include "mode/call.h"
#include "order/domain.h"
#include "order/ending.h"
#include "order/observe.h"
#include "order/yield.h"
#include "signals/signal.h"

struct exit_body {
	u64 hash, pages;
};

static void log_exit(struct context *context, u16 number, i64 status)
{
	struct exit_body body = {0, 0};
	u32 processor;
	if (traces())
		/* A trace has times in place of the hash. */
		body = (struct exit_body){trace_clock(&processor), processor};
	else
		final_hash(context, number == NR_exit_group, &body.hash, &body.pages);
	if (executes()) {
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

u32 handle_exit_group(struct call *call)
{
	if (answers())
		debug_event(DEBUG_EXIT, (u32)call->arguments[0] & 0xff);
	else
		baton_await_printers(call->context);
	look_end(call->context);
	log_exit(call->context, (u16)call->number, (i32)call->arguments[0]);
	process_ends(call->context, ((u32)call->arguments[0] & 0xff) << 8);
	for (;;)
		sys1(NR_exit_group, call->arguments[0]);
}

/* Returns whether the thread must outlive the others. The kernel reports a process by its first
 * thread, which in a process from an image is the thread that took the image. So this thread waits
 * until the last of the others ends the process. */
static u32 must_wait(const struct context *context)
{
	return answers() && context->in_image == IN_IMAGE_READY;
}

static void end_beside_others(struct context *context, u64 status)
{
	if (!context->is_thread)
		context->process->first_status = (u32)status;
	if (must_wait(context))
		context->process->first_waits = 1;
	else if (context->is_thread)
		region_return(context->region);
}

static void end_thread(const struct context *context, u64 status, u32 was_last) NORETURN;
static void end_thread(const struct context *context, u64 status, u32 was_last)
{
	struct process *process = context->process;
	while (!was_last && must_wait(context))
		futex_wait(&process->first_waits, 1, 0);
	if (process->first_waits && was_last)
		sys1(NR_exit_group, process->first_status);
	for (;;)
		sys1(NR_exit, status);
}

u32 handle_exit(struct call *call)
{
	struct context *context = call->context;
	struct process *process = context->process;
	u32 is_last = process->thread_count <= 1 && !is_ending(process);
	if (answers())
		debug_event(
			is_last ? DEBUG_EXIT : DEBUG_THREAD_EXIT, (u32)call->arguments[0] & 0xff);
	if (is_last)
		look_end(context);
	observed_end(context);
	log_exit(context, (u16)call->number, (i32)call->arguments[0]);
	memory_left(context);
	if (!is_last) {
		thread_id_clear(context);
		end_if_ending(
			context, __atomic_sub_fetch(&process->thread_count, 1, __ATOMIC_ACQ_REL));
		end_beside_others(context, call->arguments[0]);
	}
	context->exiting = 1; /* in an image it would exit again */
	baton_end(context);
	slot_exited(context);
	end_thread(context, call->arguments[0], is_last);
}

/* The kernel gets the address of a word of the runtime. thread_id_clear clears the program's word.
 */
u32 handle_set_tid_address(struct call *call)
{
	call->context->clear_tid = call->arguments[0];
	call->actual[0] = (u64)&call->context->thread_alive;
	return handle_plainly(call);
}

u32 handle_set_robust_list(struct call *call)
{
	call_prepare(call);
	if (call_execute(call) == CALL_ABORTED)
		return deliver_deferred(call->context, 1);
	if (call->result == 0)
		call->context->robust_list = call->arguments[0];
	call_finish(call, NULL, 0);
	return leave_with_result(call);
}
