/* System calls of threads that run in parallel. Private stack.
 *
 * Most calls need no baton: the kernel orders them, and the log has their results. But a call may
 * show a thread what another thread did before one of its own calls, for example when it reads what
 * the other wrote to a pipe. So the beginning of a call counts as an operation of its thread. At
 * the end of a call the thread reads the counts of all others, and logs those that have grown as
 * AFTER events. A call that began after this one ended had no influence on it. No thread waits for
 * another while recording.
 *
 * At replay a thread returns from its call once those others have come to theirs.
 *
 * The processor makes stores visible in their order: a thread that sees the effect of a call also
 * sees that the call had begun. */
#include "order/observe.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "gen/numbers.h"
#include "log/gate.h"
#include "log/log.h"
#include "log/window.h"
#include "order/after.h"
#include "order/ahead.h"
#include "order/baton.h"
#include "order/operation.h"
#include "order/policy.h"

/* ---- record ---- */

static u32 is_apart(const struct context *context)
{
	return __atomic_load_n(&context->process->domain, __ATOMIC_SEQ_CST) ==
	       &context->process->private_domain;
}

static void observe_thread(struct context *context, const struct context *other)
{
	u32 stream = __atomic_load_n(&other->known_as, __ATOMIC_ACQUIRE);
	u64 operations = __atomic_load_n(&other->operations, __ATOMIC_ACQUIRE);
	/* Otherwise the thread has ended meanwhile. */
	if (stream && stream == __atomic_load_n(&other->known_as, __ATOMIC_ACQUIRE) && operations)
		note_after(context, stream, operations, CLOCKS);
}

/* Observes the last thread that ended, which came after all that had ended before. An ending thread
 * writes `ended` in three steps. */
static void observe_ended(struct context *context)
{
	const struct ended *ended = &PROCESS_INITIAL->ended;
	for (;;) {
		u32 stream = __atomic_load_n(&ended->stream, __ATOMIC_ACQUIRE);
		u64 operations = __atomic_load_n(&ended->operations, __ATOMIC_ACQUIRE);
		if (stream && stream == __atomic_load_n(&ended->stream, __ATOMIC_ACQUIRE)) {
			note_after(context, stream, operations, CLOCKS);
			return;
		}
		if (!__atomic_load_n(&ended->count, __ATOMIC_ACQUIRE))
			return;
		sys0(NR_sched_yield);
	}
}

void observe_all(struct context *context)
{
	u32 regions = __atomic_load_n(&PROCESS_INITIAL->region_count, __ATOMIC_ACQUIRE);
	for (u32 region = 0; region < regions; region++)
		if (context_of(region) != context)
			observe_thread(context, context_of(region));
	observe_ended(context);
}

void observed_begin(struct context *context)
{
	if (context->sections && is_apart(context))
		__atomic_store_n(&context->known_as, as_holder(context), __ATOMIC_RELEASE);
}

/* After a fork, contexts still hold the state of threads that the child process does not have. */
void observed_create(struct context *context)
{
	for (u32 region = 0; region < PROCESS_INITIAL->region_count; region++)
		context_of(region)->known_as = 0;
	PROCESS_INITIAL->ended = (struct ended){.stream = 0};
	observed_begin(context);
}

void observed_end(struct context *context)
{
	struct ended *ended = &PROCESS_INITIAL->ended;
	if (!makes_order() || !context->known_as)
		return;
	observe_ended(context);
	__atomic_store_n(&ended->stream, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&ended->count, ended->count + 1, __ATOMIC_RELEASE);
	/* One more than the thread has, for its end. */
	__atomic_store_n(&ended->operations, context->operations + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&ended->stream, as_holder(context), __ATOMIC_RELEASE);
	__atomic_store_n(&context->known_as, 0, __ATOMIC_RELEASE);
}

void call_is_made(struct context *context)
{
	if (!is_apart(context))
		context->parallel |= CALL_JOINED;
}

/* ---- both ---- */

/* A call that is made again, because it was not executed, counts only once. If another thread makes
 * the process join the shared domain, either that thread sees that this call has begun, or this
 * thread sees that the process has joined. */
void call_begins(struct context *context)
{
	u64 begun = context->operations + !context->undone;
	context->undone = 0;
	context->observes = 1;
	if (makes_order()) {
		__atomic_store_n(&context->slot->baton.operations, begun, __ATOMIC_RELAXED);
		__atomic_exchange_n(&context->operations, begun, __ATOMIC_SEQ_CST);
		return;
	}
	context->operations = begun;
	if (context->process->progress_mapped)
		operation_publish(context);
	after_await_observed(context);
	end_if_over(context);
}

u32 call_is_parallel(struct context *context, u32 may)
{
	if (context->in_section)
		return 0;
	if (makes_order())
		return may && is_apart(context) ? CALL_PARALLEL : 0;
	const struct event *event = log_peek(context);
	if (!event || event->kind != EVENT_CALL || !(event->flags & CALL_PARALLEL))
		return 0;
	return event->flags & (CALL_PARALLEL | CALL_JOINED);
}

static void empty_section(struct context *context)
{
	baton_enter_section(context);
	baton_leave_section(context);
}

/* Orders a delivered signal after its sender, which may have set the handler. Without the baton
 * nothing else does. */
void call_sees_signals(struct context *context)
{
	if (!context->parallel)
		return;
	if (obeys_order())
		after_await_observed(context);
	else if (context->known_as && is_apart(context))
		observe_all(context);
}

/* At replay the thread may have to wait, but not while others wait for its turn. So its section has
 * ended before. */
void call_ends(struct context *context)
{
	u32 joined = context->parallel & CALL_JOINED, observes = context->observes;
	context->parallel = context->observes = 0;
	if (UNLIKELY(joined))
		empty_section(context);
	if (obeys_order()) {
		look_ahead(context);
		after_await_observed(context);
	} else if (observes && context->known_as && is_apart(context))
		observe_all(context);
}
