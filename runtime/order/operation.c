/* Operations: instructions by which threads synchronise, under the sync policy. Private stack.
 *
 * Each operation is on some memory. A hash of the line of memory selects a clock, which orders the
 * operations on that line; those on other lines run in parallel. While recording, the clock is a
 * lock, held as long as the instruction takes. Threads count their operations. The clock holds the
 * thread that operated last, and how many operations that thread had ended. If that was another
 * thread, the new one logs it as an AFTER event, unless its earlier events imply it. Nothing else
 * is logged: consecutive operations of one thread are a run (CASTOR, section 3; RESPEC, section
 * 4.3).
 *
 * At replay there are no clocks. A thread waits where its stream has an AFTER event, until the
 * other thread has ended that many operations.
 *
 * Functions of the C library that work on one object are operations, too (object.c). The baton
 * orders the library's other functions that synchronise, and the atomic instructions beside them.
 */
#include "order/operation.h"
#include "base/futex.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "gen/numbers.h"
#include "log/gate.h"
#include "log/ring.h"
#include "log/window.h"
#include "order/after.h"
#include "order/ahead.h"
#include "order/baton.h"
#include "order/chaos.h"
#include "order/policy.h"

#define LINE_BYTES 64
#define ADDRESS_END (1UL << 47)
#define SPREAD 0x9e3779b97f4a7c15UL /* 2^64 divided by the golden ratio */
/* An operation ends at once, unless its thread was preempted. */
#define CLOCK_SPINS 200
#define LOOKS_UNTIL_DOUBT 1000

/* ---- record ---- */

/* A stub that cannot compute the address of the thread's own storage passes the distance from its
 * end. */
static u64 address_of(u64 operand)
{
	u64 thread;
	if (LIKELY(operand < ADDRESS_END))
		return operand;
	__asm__("mov %%fs:0, %0" : "=r"(thread));
	return thread + operand;
}

static struct clock *clock_of(const struct domain *domain, u64 address)
{
	u64 hash = (address / LINE_BYTES + domain->identity) * SPREAD;
	return &HEADER->clocks[hash / (~0UL / CLOCKS + 1)];
}

static u32 take_clock(struct context *context, struct clock *clock, u32 from)
{
	return __atomic_compare_exchange_n(
		&clock->holder, &from, as_holder(context), 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static u32 lives(u32 stream)
{
	for (u32 i = 0, used = slots_used(); i < used; i++) {
		const struct slot *slot = &HEADER->slots[i];
		if (slot->stream == stream &&
			__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == SLOT_LIVE)
			return 1;
	}
	return 0;
}

/* Unlocking wakes no thread: the holder would have to check for waiting threads each time. */
static void await_clock(struct context *context, struct clock *clock)
{
	for (u32 look = 1;; look++) {
		u32 holder = __atomic_load_n(&clock->holder, __ATOMIC_RELAXED);
		if (!holder && take_clock(context, clock, 0))
			return;
		if (look % CLOCK_SPINS)
			__builtin_ia32_pause();
		else
			sys0(NR_sched_yield);
		/* A process that shares the memory may have been killed with the clock. */
		if (look % (CLOCK_SPINS * LOOKS_UNTIL_DOUBT) == 0 && holder && !lives(holder - 1) &&
			take_clock(context, clock, holder))
			return;
	}
}

static SELDOM void wait_for_clock(struct context *context, struct clock *clock)
{
	__atomic_add_fetch(&clock->waiters, 1, __ATOMIC_RELAXED);
	await_clock(context, clock);
	__atomic_sub_fetch(&clock->waiters, 1, __ATOMIC_RELAXED);
}

/* Without this a spinning thread would take the clock again before any other can. */
static SELDOM void let_others_operate(const struct context *context, const struct clock *clock)
{
	for (u32 i = 0; i < CLOCK_SPINS; i++) {
		if (!__atomic_load_n(&clock->waiters, __ATOMIC_RELAXED) ||
			(u32)__atomic_load_n(&clock->last, __ATOMIC_RELAXED) != as_holder(context))
			return;
		__builtin_ia32_pause();
	}
}

static void lock_clock(struct context *context, struct clock *clock)
{
	if (UNLIKELY(__atomic_load_n(&clock->waiters, __ATOMIC_RELAXED)))
		let_others_operate(context, clock);
	if (UNLIKELY(!take_clock(context, clock, 0)))
		wait_for_clock(context, clock);
}

static void unlock_clock(struct clock *clock)
{
	__atomic_store_n(&clock->holder, 0, __ATOMIC_RELEASE);
}

_Static_assert(__builtin_offsetof(struct process, domain) == 0, "operation.inc");
_Static_assert(sizeof(struct clock) == 64 && CLOCKS == 1024, "operation.inc");

/* The thread, and in the high half the domain's epoch. */
static u64 operator_of(const struct context *context, const struct domain *domain)
{
	return (u64)domain->epoch << 32 | as_holder(context);
}

static SELDOM void go_by_clocks(struct context *context, struct domain *domain)
{
	u32 is_slow = domain == &HEADER->shared_domain || context->sections & SECTIONS_SIGNALLED ||
		      orders_at_random();
	context->quick = (struct quick){.is_on = is_slow ? QUICK_NONE : QUICK_RECORDED,
		.domain = domain,
		.seed = domain->identity,
		.own = operator_of(context, domain),
		.clocks = HEADER->clocks,
		.published = &context->slot->baton.operations};
}

u32 operation_lock(struct context *context, u64 operand)
{
	u64 address = address_of(operand);
	struct domain *const *of_process = &context->process->domain;
	/* These may wait, which is forbidden while the thread holds a clock. */
	ring_reserve(context, EVENT_ROOM);
	if (UNLIKELY(orders_at_random()))
		chaos_before_operation(context);
	for (;;) {
		struct domain *domain = __atomic_load_n(of_process, __ATOMIC_ACQUIRE);
		if (UNLIKELY(context->quick.domain != domain))
			go_by_clocks(context, domain);
		if (UNLIKELY(domain == &HEADER->shared_domain))
			return 0;
		context->clock = clock_of(domain, address);
		lock_clock(context, context->clock);
		if (LIKELY(__atomic_load_n(of_process, __ATOMIC_ACQUIRE) == domain))
			break;
		unlock_clock(context->clock);
	}
	context->operating = 1;
	return 1;
}

/* Operations of another domain are on other memory. */
static u32 comes_behind(const struct context *context, const struct clock *clock)
{
	return (u32)clock->last != as_holder(context) &&
	       clock->last >> 32 == context->process->domain->epoch;
}

void operation_note(struct context *context)
{
	const struct clock *clock = context->clock;
	if (UNLIKELY(comes_behind(context, clock)))
		note_after(context, (u32)clock->last, clock->operations,
			(u32)(clock - HEADER->clocks));
}

static void end_recorded(struct context *context)
{
	struct clock *clock = context->clock;
	u64 ended = ++context->operations;
	__atomic_store_n(&context->slot->baton.operations, ended, __ATOMIC_RELAXED);
	clock->last = operator_of(context, context->process->domain);
	clock->operations = ended;
	unlock_clock(clock);
}

/* Moves the process to another domain while no thread operates. Later operations find the new
 * domain, and their threads have turns in it after this one. */
void operations_join(struct context *context, struct domain *domain)
{
	struct clock *const clocks = HEADER->clocks;
	for (u32 i = 0; i < CLOCKS; i++) {
		ring_reserve(context, EVENT_ROOM);
		lock_clock(context, &clocks[i]);
		context->clock = &clocks[i];
		operation_note(context);
	}
	__atomic_store_n(&context->process->domain, domain, __ATOMIC_SEQ_CST);
	for (u32 i = 0; i < CLOCKS; i++)
		unlock_clock(&clocks[i]);
}

/* ---- replay ---- */

/* Returns whether a clock orders the operation. If its process has joined those that share memory
 * by now, the baton orders it, in a turn that begins with it. */
static u32 is_by_clock(struct context *context)
{
	const struct event *event = log_peek(context);
	if (!has_progress(context))
		return 0;
	return !event || event->kind != EVENT_TURN || event->number != TURN_SHARED ||
	       !(event->flags & TURN_SECTION) || !stands_at(context, event);
}

u32 operation_is_next(struct context *context)
{
	if (!is_by_clock(context))
		return 0;
	after_await(context);
	return 1;
}

/* Called from entry/operation.inc. */
void operation_wakes(struct context *context);
void operation_wakes(struct context *context)
{
	futex_wake((u32 *)&progress_of(context->slot->stream)->operations, 0x7fffffff);
}

void operation_publish(struct context *context)
{
	struct progress *progress = progress_of(context->slot->stream);
	u64 come = context->operations + 1;
	__atomic_store_n(&progress->operations, come, __ATOMIC_RELEASE);
	if (UNLIKELY(__atomic_load_n(&progress->wake_at, __ATOMIC_RELAXED) == come))
		operation_wakes(context);
}

static void end_replayed(struct context *context)
{
	context->operations++;
	operation_publish(context);
	look_ahead(context);
}

/* ---- both ---- */

u32 operation_begin(struct context *context, u64 operand)
{
	if (makes_order()) {
		if (!operation_lock(context, operand))
			return 0;
		operation_note(context);
	} else {
		if (!operation_is_next(context))
			return 0;
		context->operating = 1;
	}
	return 1;
}

void operation_end(struct context *context)
{
	context->operating = context->began_quickly = 0;
	if (makes_order())
		end_recorded(context);
	else
		end_replayed(context);
}

void operation_abandon(struct context *context)
{
	context->operating = context->began_quickly = 0;
	if (makes_order())
		unlock_clock(context->clock);
}

void operations_inherit(struct context *child)
{
	child->operating = child->began_quickly = child->settled = 0;
	child->process->progress_mapped = 0;
	child->process->binding_lock = 0;
	child->process->binding.address = 0; /* the thread that binds is not here */
	child->quick = (struct quick){.is_on = 0};
	child->operand = child->operations = 0;
	child->known_as = child->parallel = child->undone = child->observes = 0;
	if (child->sections)
		memset(child->known, 0, sizeof child->known);
}
