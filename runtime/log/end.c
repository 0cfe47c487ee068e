/* How threads and processes end: the last steps in both modes, and in replay the end of a stream.
 * Private stack. */
#include "log/end.h"
#include "base/debugged.h"
#include "base/futex.h"
#include "base/robust.h"
#include "base/signals.h"
#include "base/state.h"
#include "base/sys.h"
#include "gen/numbers.h"
#include "log/gate.h"
#include "log/look.h"
#include "log/request.h"
#include "log/window.h"

void slot_exited(struct context *context)
{
	context->slot->ended_ns = now_ns();
	stream_ended(context);
}

void kill_self(u32 number)
{
	static const struct signal_action standard = {0, 0, 0, 0};
	u64 mask = ~SIGNAL_BIT(number);
	sys4(NR_rt_sigaction, number, &standard, NULL, 8);
	sys4(NR_rt_sigprocmask, 2 /* SIG_SETMASK */, &mask, NULL, 8);
	sys3(NR_tgkill, sys0(NR_getpid), sys0(NR_gettid), number);
	for (;;)
		sys1(NR_exit_group, 128 + number);
}

/* ---- replay ---- */

void turns_end(struct context *context)
{
	if (context->domain != &context->process->private_domain)
		turn_complete(context);
}

void end_by_signal(struct context *context, u32 number)
{
	debug_event(DEBUG_DEATH, number);
	context->exiting = 1;
	turns_end(context);
	slot_exited(context);
	kill_self(number);
}

static void wait_for_end(void) NORETURN;
static void wait_for_end(void)
{
	static u32 const never = 0;
	/* The end of another thread ends the process. */
	for (;;)
		futex_wait((u32 *)&never, 0, 0);
}

/* Returns what is known of the thread after the end of its stream. */
static const struct cut_end *ask_for_end(struct context *context)
{
	struct cut_end *end = &context->cut_end;
	if (end->known == context->turn + 1)
		return end;
	u32 is_shared = context->domain == &HEADER->shared_domain;
	end->operations = (u64)request(context, REQUEST_CUT_END, context->turn, is_shared, 0);
	u64 sections = (u64)context->slot->request.values[1];
	end->sections = sections >> 1;
	end->is_whole = sections & 1;
	end->known = context->turn + 1;
	return end;
}

u64 cut_sections(struct context *context)
{
	return streams_are_cut() ? ask_for_end(context)->sections : 0;
}

u64 cut_operations(struct context *context)
{
	return streams_are_cut() ? ask_for_end(context)->operations : 0;
}

void turn_ends(struct context *context)
{
	if (UNLIKELY(streams_are_cut()) && context->turn && !context->process->ending &&
		!log_peek(context) && !ask_for_end(context)->is_whole)
		context->turn = 0; /* threads with later turns wait */
	turn_complete(context);
}

/* The last thread ends its process. */
static void end_last(struct context *context, u32 status) NORETURN;
static void end_last(struct context *context, u32 status)
{
	if (status & 0x7f)
		end_by_signal(context, status & 0x7f);
	debug_event(DEBUG_EXIT, (status >> 8) & 0xff);
	for (;;)
		sys1(NR_exit_group, (status >> 8) & 0xff);
}

/* The recorded thread ended here without an event: it was killed, or the recording was cut. */
void end_of_stream(struct context *context)
{
	if (UNLIKELY(context->gone))
		wait_for_end();
	const struct event *event = log_peek(context);
	struct process *process = context->process;
	u32 status = event && event->kind == EVENT_END ? (u32)event->value : SIGKILL;
	look_end(context);
	if ((status & 0x7f) == SIGKILL)
		memory_left(context); /* as the kernel did */
	turn_ends(context);
	/* The next thread may wait for the end of this stream, and be the last one. */
	process->cut_status = status;
	process->is_cut_short = streams_are_cut() && !event && !process->ending;
	__atomic_store_n(&process->is_cut, 1, __ATOMIC_RELEASE);
	u32 is_in_order = settled() || streams_are_cut();
	if (!is_in_order)
		stream_ended(context);
	u32 left = __atomic_sub_fetch(&process->thread_count, 1, __ATOMIC_ACQ_REL);
	if (is_in_order)
		stream_ended(context);
	if (left)
		wait_for_end();
	end_last(context, process->ending ? process->ending_status : status);
}

u32 is_ending(const struct process *process)
{
	return process->ending || __atomic_load_n(&process->is_cut, __ATOMIC_ACQUIRE);
}

void end_after_guest(struct context *context, const struct process *guest)
{
	if (!guest->is_cut_short)
		return;
	context->turn = 0; /* threads with later turns wait */
	end_of_stream(context);
}

void end_if_ending(struct context *context, u32 left)
{
	struct process *process = context->process;
	if (left || !is_ending(process))
		return;
	turns_end(context);
	stream_ended(context);
	end_last(context, process->ending ? process->ending_status : process->cut_status);
}

/* Stops this thread. The process ends with its last thread, because processes that share its memory
 * may wait for turns that its other threads had before they died. The first thread to end the
 * process decides the status. */
void end_process(struct context *context, u32 status)
{
	struct process *process = context->process;
	u32 first = 0;
	if (__atomic_compare_exchange_n(
		    &process->ending, &first, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		process->ending_status = status;
	end_of_stream(context);
}
