/* Lazy binding under the sync policy. Private stack.
 *
 * The dynamic linker binds a function when a thread first calls it. Threads that call it at the
 * same time would all bind it, or some of them, as it happens: code reads a slot without a word to
 * anybody. The linker leaves traces on the stack, and counts. So only one thread at a time binds,
 * and each function is bound once: threads that come meanwhile wait, and go straight to the
 * function. A BINDING event tells which thread it was. At replay the others wait for that thread if
 * they come earlier than they did. Stubs enter the runtime before the thread has written anything.
 *
 * A settled replay has another order of threads, in which a thread would wait between two of its
 * events, where none can stand still. There whoever comes first binds (log_past_binding).
 *
 * The linker may wait for a lock, and the thread that has the lock may want to bind a function. So
 * waiting ends after a while, and the event says so. */
#include "order/binding.h"
#include "base/bound.h"
#include "base/futex.h"
#include "base/state.h"
#include "base/sys.h"
#include "gen/numbers.h"
#include "log/beside.h"
#include "log/end.h"
#include "log/gate.h"
#include "log/log.h"
#include "log/ring.h"
#include "log/settle.h"
#include "log/window.h"
#include "order/after.h"
#include "order/ahead.h"
#include "order/operation.h"
#include "order/policy.h"
#include "order/waiting.h"

#define LONGEST_NS 500000000UL
#define SPINS 200
#define LOOK_AGAIN_MS 1
#define HOPELESS_LOOKS 1000 /* at which all others waited */

/* Where a stub goes on: the instruction that an unbound slot leads to, and a jump back. */
struct __attribute__((packed)) way_on {
	u8 push;
	i32 number;
	u8 jump;
	i32 distance;
};

static struct lazy_slot slot_at(u64 address, u64 stub)
{
	const struct way_on *way = (const struct way_on *)stub;
	u64 next = stub + sizeof *way + (u64)(i64)way->distance;
	return (struct lazy_slot){
		.address = address, .unbound = next - __builtin_offsetof(struct way_on, jump)};
}

static void go_to_function(struct context *context, const struct lazy_slot *slot)
{
	context->regs.rip = *(const u64 *)slot->address;
}

/* Waits for another thread, which binds the function of a slot and wakes nobody. */
static void look_later(const struct lazy_slot *slot, u32 look)
{
	u32 *word = (u32 *)slot->address;
	if (look < SPINS)
		__builtin_ia32_pause();
	else
		futex_wait(word, *word, LOOK_AGAIN_MS);
}

/* Returns whether the thread is now the one that binds. It is not if the function is bound. */
static u32 claim(struct context *context, const struct lazy_slot *slot, u32 beside)
{
	struct process *process = context->process;
	while (__atomic_exchange_n(&process->binding_lock, 1, __ATOMIC_ACQUIRE))
		sys0(NR_sched_yield);
	u32 is_over = beside || is_bound(&process->binding),
	    is_own = process->binder == as_holder(context),
	    may = !is_bound(slot) && (is_over || is_own);
	/* A function that the linker calls to choose another one may call a third by way of an
	 * unbound slot. */
	if (may && is_over) {
		process->binding = *slot;
		process->binder = as_holder(context);
	}
	__atomic_store_n(&process->binding_lock, 0, __ATOMIC_RELEASE);
	return may;
}

/* ---- record ---- */

/* Returns 0 if another thread has bound the function. */
static u32 may_bind(struct context *context, const struct lazy_slot *slot, u32 *beside)
{
	u64 since = 0;
	*beside = 0;
	for (u32 look = 1; !is_bound(slot); look++) {
		if (claim(context, slot, *beside))
			return 1;
		look_later(slot, look);
		if (look < SPINS)
			continue;
		u64 now = now_ns();
		since = since ? since : now;
		*beside = now - since > LONGEST_NS;
	}
	return 0;
}

static void record(struct context *context, const struct lazy_slot *slot)
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
	ring_event(context, EVENT_BINDING, flags, 0, (i64)slot->address, &body, sizeof body);
}

/* ---- replay ---- */

/* Returns whether a thread waits for something that has not come. */
static u32 is_held_up(const struct context *one)
{
	const struct baton *baton = &one->slot->baton;
	struct awaits awaits = {
		.turn = baton->turn, .stream = baton->awaited_stream, .operations = baton->awaited};
	return __atomic_load_n(&baton->state, __ATOMIC_ACQUIRE) == BATON_WAITING &&
	       !has_come_for(one, &awaits);
}

static u32 all_others_wait(const struct context *context)
{
	for (u32 i = 0; i < PROCESS_INITIAL->region_count; i++) {
		const struct context *one = context_of(i);
		if (is_beside(context, one, context->pid) && !is_held_up(one))
			return 0;
	}
	return 1;
}

static void wait_beside_others(struct context *context, const struct lazy_slot *slot)
{
	struct patience patience = {0, 0};
	u32 before = context->slot->baton.state, stuck = 0;
	tell_awaited(context, &(struct awaits){.turn = 0});
	context->slot->baton.state = BATON_WAITING;
	for (u32 look = 1; !is_bound(slot); look++) {
		look_later(slot, look);
		if (look < SPINS)
			continue;
		/* While this thread looked, one may have begun to wait behind what another did. */
		stuck = all_others_wait(context) ? stuck + 1 : 0;
		if (stuck > 1 && context->turn)
			turn_complete(context);
		if (stuck < HOPELESS_LOOKS && !patience_spent(&patience, slot->address))
			continue;
		if (streams_are_cut())
			end_of_stream(context);
		diverge(context, WHY_UNBOUND, slot->address, 0);
	}
	context->slot->baton.state = before;
}

/* Waits until another thread has bound the function of a slot. Nothing in the stream tells whether
 * the recorded thread's turn was over here. If all others wait, it was. */
static void await_bound(struct context *context, const struct lazy_slot *slot)
{
	if (is_bound(slot))
		return;
	if (!context->in_section && turn_is_over(context))
		turn_complete(context);
	context->awaited_slot = *slot;
	wait_beside_others(context, slot);
	context->awaited_slot.address = 0;
}

static u32 is_binder(const struct context *context, const struct event *event, u64 slot)
{
	return event && event->kind == EVENT_BINDING && (u64)event->value == slot &&
	       stands_at(context, event);
}

static void replay(struct context *context, const struct lazy_slot *slot)
{
	const struct event *event = log_peek(context);
	if (!is_binder(context, event, slot->address)) {
		end_if_over(context);
		await_bound(context, slot);
		go_to_function(context, slot);
		return;
	}
	u32 beside = event->flags & BINDING_BESIDE;
	while (!claim(context, slot, beside)) {
		if (is_bound(slot))
			diverge(context, WHY_UNBOUND, slot->address, 0);
		struct lazy_slot other = context->process->binding;
		await_bound(context, &other);
	}
	log_take(context, EVENT_BINDING, 0);
	look_ahead(context);
}

void binding(struct context *context)
{
	u64 address = operand_take(context);
	if (!runs_in_parallel(context) || !address)
		return;
	struct lazy_slot slot = slot_at(address, context->regs.rip);
	if (makes_order())
		record(context, &slot);
	else if (!settled())
		replay(context, &slot);
}
