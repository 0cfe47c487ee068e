/* Lazy binding under the sync policy. Private stack.
 *
 * The dynamic linker binds a function when a thread first calls it. Threads that call it at the
 * same time would all bind it, or some of them, as it happens: code reads a slot without a word to
 * anybody. The linker leaves traces on the stack, and counts. So only one thread at a time binds,
 * and each function is bound once: threads that come meanwhile wait, and go straight to the
 * function. A BINDING event tells which thread it was. At replay the others wait for that thread if
 * they come earlier than they did.
 *
 * The linker may wait for a lock, and the thread that has the lock may want to bind a function. So
 * waiting ends after a while, and the event says so. */
#include "order/binding.h"
#include "base/bound.h"
#include "base/futex.h"
#include "base/state.h"
#include "base/sys.h"
#include "gen/numbers.h"
#include "log/end.h"
#include "log/gate.h"
#include "log/log.h"
#include "log/ring.h"
#include "log/settle.h"
#include "log/window.h"
#include "order/after.h"
#include "order/ahead.h"
#include "order/policy.h"
#include "order/waiting.h"

#define EVENT_ROOM 64 /* at least the size of a BINDING event and its body */
#define LONGEST_NS 20000000UL
#define SPINS 200
#define LOOK_AGAIN_MS 1
/* Where the linker finds its arguments. Above them is the address to which the function returns. */
#define ARGUMENTS_BYTES 16

static void go_to_function(struct context *context, u64 slot)
{
	context->regs.rip = *(const u64 *)slot;
	context->regs.rsp += ARGUMENTS_BYTES;
}

/* ---- record ---- */

/* Returns whether the thread is now the one that binds. */
static u32 claim(struct context *context, u64 slot, u32 beside)
{
	struct process *process = context->process;
	u64 before = __atomic_load_n(&process->binding, __ATOMIC_ACQUIRE);
	u32 is_own = __atomic_load_n(&process->binder, __ATOMIC_RELAXED) == as_holder(context);
	if (before && !beside && !is_own && !is_bound(before))
		return 0;
	if (!__atomic_compare_exchange_n(
		    &process->binding, &before, slot, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return 0;
	__atomic_store_n(&process->binder, as_holder(context), __ATOMIC_RELAXED);
	return 1;
}

/* Returns 0 if another thread has bound the function. */
static u32 may_bind(struct context *context, u64 slot, u32 *beside)
{
	u64 since = 0;
	*beside = 0;
	for (u32 look = 1; !is_bound(slot); look++) {
		if (claim(context, slot, *beside))
			return !is_bound(slot); /* nobody else binds it now */
		if (look % SPINS) {
			__builtin_ia32_pause();
			continue;
		}
		u64 now = now_ns();
		since = since ? since : now;
		*beside = now - since > LONGEST_NS;
		sys0(NR_sched_yield);
	}
	return 0;
}

static void record(struct context *context, u64 slot)
{
	u32 beside;
	ring_reserve(context, EVENT_ROOM); /* others wait while this thread binds */
	if (!may_bind(context, slot, &beside)) {
		go_to_function(context, slot);
		return;
	}
	struct sections_body body = {
		.sections = context->turn_sections, .operations = context->operations};
	u8 flags = (lost_turn(context) ? BINDING_TURN_OVER : 0) | (beside ? BINDING_BESIDE : 0);
	ring_event(context, EVENT_BINDING, flags, 0, (i64)slot, &body, sizeof body);
}

/* ---- replay ---- */

static void wait_beside_others(struct context *context, u64 slot)
{
	struct patience patience = {0, 0};
	u32 before = context->slot->baton.state;
	context->slot->baton.state = BATON_WAITING;
	while (!is_bound(slot)) {
		futex_wait((u32 *)slot, *(const u32 *)slot, LOOK_AGAIN_MS);
		if (!patience_spent(&patience, slot))
			continue;
		if (streams_are_cut())
			end_of_stream(context);
		diverge(context, WHY_UNBOUND, slot, 0);
	}
	context->slot->baton.state = before;
}

/* Waits until another thread has bound the function of a slot. */
static void await_bound(struct context *context, u64 slot)
{
	if (is_bound(slot))
		return;
	if (!context->in_section && turn_is_over(context))
		turn_complete(context);
	context->awaited_slot = slot;
	if (settles(context))
		settle(context, &(struct awaits){.turn = 0});
	else
		wait_beside_others(context, slot);
	context->awaited_slot = 0;
}

static u32 is_binder(const struct context *context, const struct event *event, u64 slot)
{
	const struct sections_body *body = (const struct sections_body *)(event + 1);
	return event && event->kind == EVENT_BINDING && (u64)event->value == slot &&
	       event->size >= sizeof *event + sizeof *body &&
	       body->operations == context->operations && body->sections == context->turn_sections;
}

static void replay(struct context *context, u64 slot)
{
	struct process *process = context->process;
	const struct event *event = log_peek(context);
	if (!is_binder(context, event, slot)) {
		end_if_over(context);
		await_bound(context, slot);
		go_to_function(context, slot);
		return;
	}
	u32 beside = event->flags & BINDING_BESIDE;
	while (!claim(context, slot, beside))
		await_bound(context, __atomic_load_n(&process->binding, __ATOMIC_ACQUIRE));
	log_take(context, EVENT_BINDING, 0);
	look_ahead(context);
}

void binding(struct context *context)
{
	if (!runs_in_parallel(context))
		return;
	u64 slot = slot_of_call(context->regs.rsp);
	if (!slot)
		return;
	if (makes_order())
		record(context, slot);
	else
		replay(context, slot);
}
