/* Runs another program in the same process. Private stack. */
#include "base/addresses.h"
#include "base/debugged.h"
#include "base/decimal.h"
#include "base/futex.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "calls/turns.h"
#include "gen/numbers.h"
#include "log/look.h"
#include "log/request.h"
#include "log/window.h"
#include "mode/call.h"
#include "order/baton.h"
#include "order/domain.h"
#include "order/forcing.h"
#include "order/home.h"
#include "signals/signal.h"

static u32 has_siblings(const struct context *context)
{
	u32 used = slots_used();
	for (u32 i = 0; i < used; i++)
		if (is_sibling(context, &HEADER->slots[i]))
			return 1;
	return context->process->thread_count > 1; /* also counts threads that have not begun */
}

/* The exec ends the other threads, wherever they are. What they did before it in the recording
 * comes first, so this waits until each has come to the end of its stream. */
static void await_siblings(const struct context *context)
{
	static u32 const never = 0;
	while (context->process->had_threads && has_siblings(context))
		futex_wait((u32 *)&never, 0, 1);
}

/* Starts a new program in a replayed process: a fresh runtime in an empty address space, which
 * continues the same stream. */
static NORETURN void host_exec(struct context *context)
{
	struct slot *slot = context->slot;
	char header[24], index[24];
	baton_end(context);
	home_leave(context);
	await_siblings(context);
	slot->next_window_offset = context->log_offset;
	slot->event_count = context->event_count;
	slot->carried.altered_mask = context->sigmask;
	const char *arguments[4] = {"retake-replay",
		put_decimal(header + 24, (u64)HEADER->header_id),
		put_decimal(index + 24, (u64)(slot - HEADER->slots)), NULL};
	const char *environment[1] = {NULL};
	note_ignored(context);
	i64 result = sys6(NR_execveat, (u64)HEADER->host_descriptor, (u64) "", (u64)arguments,
		(u64)environment, 0x1000, 0);
	(void)result;
	fail("cannot exec the replay host");
}

/* Finds out whether the kernel would refuse the file, before a tracer is requested. */
static i64 exec_refused(const struct call *call, u64 directory, u64 path, u64 flags)
{
	(void)call;
	i64 result = sys4(NR_faccessat2, directory, path, 1 /* X_OK */,
		0x200 /* AT_EACCESS */ | (flags & 0x1100));
	return result == -38 ? 0 : result;
}

static void exec_undo(struct context *context)
{
	__atomic_store_n(&context->slot->exec_pending, 2, __ATOMIC_RELEASE);
	/* The supervisor's agent sees this stop and detaches. */
	sys3(NR_tgkill, context->pid, context->tid, SIGSYS);
	__atomic_store_n(&context->slot->exec_pending, 0, __ATOMIC_RELEASE);
}

static u32 exec_record(struct call *call)
{
	struct context *context = call->context;
	struct slot *slot = context->slot;
	u32 at = call->number == NR_execveat;
	call_prepare(call);
	i64 refused = exec_refused(call, at ? call->arguments[0] : (u64)-100L, call->arguments[at],
		at ? call->arguments[4] : 0);
	if (refused) {
		call->result = refused;
		call_finish(call, NULL, 0);
		context->regs.rax = (u64)refused;
		return leave(context);
	}
	look_end(context);
	home_leave(context);
	call->result = EXEC_COMMITTED;
	call_finish(call, NULL, 0);
	slot->carried.uses = context->process->uses;
	slot->carried.address_limits = context->process->address_limits;
	slot->carried.altered_mask = context->sigmask;
	note_ignored(context);
	slot->event_count = context->event_count;
	force_close(context);
	__atomic_store_n(&slot->exec_pending, 1, __ATOMIC_RELEASE);
	request(context, REQUEST_EXEC, 0, 0, 0);
	call_prepare(call);
	baton_keep_alone(context, 1);
	/* The new program begins with the whole header mapped. */
	addresses_grow(context->process, (i64)addresses_forgotten());
	call_execute(call);
	addresses_grow(context->process, -(i64)addresses_forgotten());
	baton_keep_alone(context, 0);
	exec_undo(context);
	force_open(context);
	call_finish(call, NULL, 0);
	if (call->result == CALL_ABORTED)
		return deliver_deferred(context, 1);
	return leave_with_result(call);
}

static u32 exec_replay(struct call *call)
{
	struct context *context = call->context;
	call_prepare(call);
	if (call->result == EXEC_COMMITTED) {
		obey_turns(context); /* other threads ran until the kernel refused */
		const struct event *next = log_peek(context);
		if (next && next->kind == EVENT_EXEC) {
			look_end(context);
			debug_event(DEBUG_EXEC, 0);
			host_exec(context);
		}
		call_prepare(call);
		if (call->result == CALL_ABORTED)
			return replay_undone(context);
	}
	call_finish(call, NULL, 0);
	return leave_with_result(call);
}

u32 handle_execve(struct call *call) { return executes() ? exec_record(call) : exec_replay(call); }
u32 handle_execveat(struct call *call) { return handle_execve(call); }
