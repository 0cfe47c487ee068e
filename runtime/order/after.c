/* AFTER events: an operation comes after another thread's operation. Private stack. */
#include "order/after.h"
#include "base/futex.h"
#include "base/state.h"
#include "log/end.h"
#include "log/gate.h"
#include "log/log.h"
#include "log/ring.h"
#include "log/settle.h"
#include "order/waiting.h"

#define LOOK_AGAIN_MS 2
#define LOOKS_AT_CIRCLE 100

/* ---- record ---- */

/* Flags an event of a thread that has lost the baton since: at replay other threads then need not
 * wait until this thread comes to its next section, which may come after their own operations. */
u8 lost_turn(const struct context *context)
{
	u32 last = __atomic_load_n(&context->process->domain->last, __ATOMIC_RELAXED);
	return last == as_holder(context) ? 0 : AFTER_TURN_OVER;
}

void note_after(struct context *context, u32 stream, u64 operations, u32 clock)
{
	struct known *known = &context->known[stream % KNOWN];
	if (known->stream == stream && known->operations >= operations)
		return;
	*known = (struct known){.stream = stream, .operations = operations};
	struct after_body body = {.operations = context->operations,
		.sections = context->turn_sections,
		.stream = stream - 1,
		.clock = clock};
	u8 flags = lost_turn(context) | (clock == CLOCKS ? AFTER_OBSERVED : 0);
	ring_event(context, EVENT_AFTER, flags, 0, (i64)operations, &body, sizeof body);
}

/* ---- replay ---- */

/* The number of operations that the stream's thread has ended, plus 1; more once the stream is
 * over. */
static u64 come_to(u32 stream)
{
	return __atomic_load_n(&progress_of(stream)->operations, __ATOMIC_ACQUIRE);
}

/* Asks the stream's thread to wake its waiters when it has ended the operations for `target`. Each
 * thread that waits for a later operation asks again then. Returns 0 if the stream has come further
 * than `come`. */
static u32 is_woken_by(struct progress *progress, u64 come, u64 target)
{
	u64 at = __atomic_load_n(&progress->wake_at, __ATOMIC_SEQ_CST);
	while (at <= come || at > target)
		if (__atomic_compare_exchange_n(
			    &progress->wake_at, &at, target, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			break;
	return __atomic_load_n(&progress->operations, __ATOMIC_SEQ_CST) == come;
}

/* Sleeps until the awaited operation may have ended. A thread that ends an operation checks without
 * a fence whether it has to wake others, so a sleeping thread also looks again by itself. */
static void sleep_until(struct context *context, const struct awaits *awaits)
{
	struct progress *progress = progress_of(awaits->stream - 1);
	u64 come = come_to(awaits->stream - 1);
	/* The supervisor sees by this that the replay goes on. */
	context->slot->baton.operations = context->operations;
	if (come <= awaits->operations && is_woken_by(progress, come, awaits->operations + 1))
		futex_wait((u32 *)&progress->operations, (u32)come, LOOK_AGAIN_MS);
}

/* Returns whether the thread waits for itself by way of others. `ended`: the number of operations
 * that these others have ended. */
static u32 is_in_circle(const struct context *context, u64 *ended)
{
	struct awaits next = context->awaits;
	*ended = 0;
	for (u32 i = 0; i <= context->process->region_count; i++) {
		if (!next.stream || has_come_for(context, &next))
			return 0;
		if (next.stream == as_holder(context))
			return 1;
		*ended += come_to(next.stream - 1);
		const struct context *other = progress_of(next.stream - 1)->context;
		next = other ? other->awaits : (struct awaits){.stream = 0};
	}
	return 0;
}

/* What other threads wait for is read thread by thread and changes meanwhile. So a circle counts
 * only if it stays the same. */
struct circle {
	u32 looks;
	u64 ended;
};

static void refuse_circle(struct context *context, struct circle *circle)
{
	u64 ended;
	if (!is_in_circle(context, &ended) || ended != circle->ended)
		*circle = (struct circle){0, ended};
	else if (++circle->looks >= LOOKS_AT_CIRCLE)
		diverge(context, WHY_DEADLOCK, context->awaits.stream - 1,
			context->awaits.operations);
}

static void wait_side_by_side(struct context *context, const struct awaits *awaits)
{
	struct patience patience = {0, 0};
	struct circle circle = {0, 0};
	while (!has_come_for(context, awaits)) {
		sleep_until(context, awaits);
		refuse_circle(context, &circle);
		if (patience_spent(&patience, come_to(awaits->stream - 1)))
			diverge(context, WHY_LATE, awaits->stream - 1, awaits->operations);
	}
}

static SELDOM void wait_for(struct context *context, const struct awaits *awaits)
{
	u32 before = context->slot->baton.state;
	if (!settles(context) && comes_soon(context, awaits))
		return;
	if (settles(context)) {
		settle(context, awaits);
		return;
	}
	tell_awaited(context, awaits);
	context->awaits = *awaits;
	context->slot->baton.state = BATON_WAITING;
	wait_side_by_side(context, awaits);
	context->slot->baton.state = before;
	context->awaits = (struct awaits){.stream = 0};
}

u64 operations_at_end(struct context *context, const struct event *event)
{
	const struct sections_body *body = (const struct sections_body *)(event + 1);
	if (!event)
		return cut_operations(context);
	return event->size >= sizeof *event + sizeof *body ? body->operations : 0;
}

/* Returns 1 if the event belongs to the thread's next operation, which comes after another
 * thread's. */
static u32 is_of_next(struct context *context, const struct event *event)
{
	const struct after_body *body = (const struct after_body *)(event + 1);
	if (event->kind != EVENT_AFTER)
		return 0;
	if (event->size < sizeof *event + sizeof *body || !context->process->progress_mapped)
		diverge(context, WHY_CORRUPT, event->size, 0);
	if (body->operations < context->operations)
		diverge(context, WHY_OPERATIONS, body->operations, context->operations);
	return body->operations == context->operations;
}

static void await_those(struct context *context, u8 flags)
{
	const struct event *event = log_peek(context);
	while (event && is_of_next(context, event) && (event->flags & flags) == flags) {
		const struct after_body *body = (const struct after_body *)(event + 1);
		struct awaits awaits = {
			.stream = body->stream + 1, .operations = (u64)event->value};
		if (UNLIKELY(!has_come_for(context, &awaits))) {
			if (!context->in_section && turn_is_over(context))
				turn_complete(context);
			wait_for(context, &awaits);
		}
		log_take(context, EVENT_AFTER, 0);
		event = log_peek(context);
	}
}

void after_await_observed(struct context *context) { await_those(context, AFTER_OBSERVED); }

void end_if_over(struct context *context)
{
	const struct event *event = log_peek(context);
	if (UNLIKELY(!event || event->kind == EVENT_END) &&
		context->operations >= operations_at_end(context, event))
		end_of_stream(context); /* the recorded thread came no further */
}

void after_await(struct context *context)
{
	await_those(context, 0);
	end_if_over(context);
}
