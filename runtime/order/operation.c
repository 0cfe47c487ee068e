/* Operations: instructions by which threads synchronise, under the sync policy. Private stack.
 *
 * Each is on some memory. A clock, chosen by a hash of the line of memory, orders operations on the
 * same line; those on others go on side by side. While recording, the clock is a lock for as long
 * as the instruction takes. Threads count their operations. The clock knows who operated last, and
 * how many operations that thread had ended. If that was somebody else, the thread logs it as an
 * AFTER event, unless it follows from what the thread has logged before. Nothing else is logged:
 * consecutive operations of one thread are a run (CASTOR, section 3; RESPEC, section 4.3).
 *
 * At replay there are no clocks. A thread waits where its stream says so, until the other thread
 * has ended that many operations.
 *
 * The C library's functions that are sections as a whole, and the atomic instructions beside them
 * on the same objects, are ordered by the baton instead, and so are system calls. */
#include "order/operation.h"
#include "base/futex.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "gen/numbers.h"
#include "log/end.h"
#include "log/gate.h"
#include "log/log.h"
#include "log/ring.h"
#include "log/settle.h"
#include "order/baton.h"
#include "order/policy.h"
#include "order/section.h"
#include "order/turn.h"

#define LINE_BYTES 64
#define ADDRESS_END (1UL << 47)
#define SPREAD 0x9e3779b97f4a7c15UL /* 2^64 divided by the golden ratio */
#define EVENT_ROOM 64		    /* an AFTER event and its body, or more */
/* An operation is over at once, unless whoever makes it has lost its processor. */
#define CLOCK_SPINS 200
#define LOOKS_UNTIL_DOUBT 1000
#define LOOK_AGAIN_MS 2
#define LOOKS_AT_CIRCLE 100

/* ---- record ---- */

/* A stub that cannot tell where the thread's own storage lies says how far from its end it is. */
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

/* Nobody is woken: the holder would have to look whether somebody waits, each time. */
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
		/* A process that shares the memory may have been killed. */
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

/* A thread that spins would take the clock again before anybody else can. */
static SELDOM void let_others_operate(const struct context *context, const struct clock *clock)
{
	for (u32 i = 0; i < CLOCK_SPINS; i++) {
		if (!__atomic_load_n(&clock->waiters, __ATOMIC_RELAXED) ||
			__atomic_load_n(&clock->last, __ATOMIC_RELAXED) != as_holder(context))
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

_Static_assert(__builtin_offsetof(struct process, domain) == 0, "operation.S");
_Static_assert(sizeof(struct clock) == 64 && CLOCKS == 1024, "operation.S");

static SELDOM void go_by_clocks(struct context *context, struct domain *domain)
{
	context->quick = (struct quick){.is_on = domain != &HEADER->shared_domain,
		.domain = domain,
		.seed = domain->identity,
		.own = (u64)domain->epoch << 32 | as_holder(context),
		.clocks = HEADER->clocks,
		.published = &context->slot->baton.operations};
}

u32 operation_lock(struct context *context, u64 operand)
{
	u64 address = address_of(operand);
	struct domain *const *of_process = &context->process->domain;
	ring_reserve(context, EVENT_ROOM); /* it may wait, which nobody may who holds a clock */
	for (;;) {
		struct domain *domain = __atomic_load_n(of_process, __ATOMIC_ACQUIRE);
		if (UNLIKELY(context->quick.domain != domain))
			go_by_clocks(context, domain);
		if (UNLIKELY(!context->quick.is_on))
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

/* A thread that has lost the baton meanwhile: at replay others need not wait until it comes to its
 * next section, which may be behind their own operations. */
static u8 is_turn_over(const struct context *context)
{
	u32 last = __atomic_load_n(&context->process->domain->last, __ATOMIC_RELAXED);
	return last == as_holder(context) ? 0 : AFTER_TURN_OVER;
}

void operation_follow(struct context *context, u32 stream, u64 operations, u32 clock)
{
	struct known *known = &context->known[stream % KNOWN];
	if (known->stream == stream && known->operations >= operations)
		return;
	*known = (struct known){.stream = stream, .operations = operations};
	struct after_body body = {.operations = context->operations,
		.sections = context->turn_sections,
		.stream = stream - 1,
		.clock = clock};
	ring_event(context, EVENT_AFTER, is_turn_over(context), 0, (i64)operations, &body,
		sizeof body);
}

/* Another domain's operations are on other memory. */
static u32 comes_behind(const struct context *context, const struct clock *clock)
{
	return clock->last != as_holder(context) && clock->epoch == context->process->domain->epoch;
}

void operation_note(struct context *context)
{
	const struct clock *clock = context->clock;
	if (UNLIKELY(comes_behind(context, clock)))
		operation_follow(
			context, clock->last, clock->operations, (u32)(clock - HEADER->clocks));
}

void operation_seen(const struct context *context, struct failed *failed)
{
	const struct clock *clock = context->clock;
	if (!comes_behind(context, clock))
		return;
	failed->after_stream = clock->last;
	failed->after = clock->operations;
	failed->clock = (u32)(clock - HEADER->clocks);
}

static void end_recorded(struct context *context)
{
	struct clock *clock = context->clock;
	u64 ended = ++context->operations;
	__atomic_store_n(&context->slot->baton.operations, ended, __ATOMIC_RELAXED);
	clock->last = as_holder(context);
	clock->epoch = context->process->domain->epoch;
	clock->operations = ended;
	unlock_clock(clock);
}

/* Nobody operates meanwhile. Who operates afterwards finds the new domain, and has a turn in it
 * behind this one. */
void operations_join(struct context *context, struct domain *domain)
{
	struct clock *const clocks = HEADER->clocks;
	for (u32 i = 0; i < CLOCKS; i++) {
		ring_reserve(context, EVENT_ROOM);
		lock_clock(context, &clocks[i]);
		context->clock = &clocks[i];
		operation_note(context);
	}
	__atomic_store_n(&context->process->domain, domain, __ATOMIC_RELEASE);
	for (u32 i = 0; i < CLOCKS; i++)
		unlock_clock(&clocks[i]);
}

/* ---- replay ---- */

/* How many operations the stream's thread has ended, plus 1; more if that is over. */
static u64 come_to(u32 stream)
{
	return __atomic_load_n(&progress_of(stream)->operations, __ATOMIC_ACQUIRE);
}

static u32 comes_soon(struct context *context, const struct awaits *awaits)
{
	if (settles(context))
		return 0;
	for (u32 i = 0, limit = SECTION_SPINS >> context->vain_spins; i < limit; i++) {
		if (has_come_for(context->domain, awaits)) {
			context->vain_spins = 0;
			return 1;
		}
		__builtin_ia32_pause();
	}
	spun_in_vain(context);
	return has_come_for(context->domain, awaits);
}

/* Until it may have come. Whoever ends the operation that somebody waits for wakes all; should two
 * wait for different ones, the other looks again by itself. */
static void sleep_until(struct context *context, const struct awaits *awaits)
{
	struct progress *progress = progress_of(awaits->stream - 1);
	u32 *word = (u32 *)&progress->operations;
	__atomic_store_n(&progress->wake_at, awaits->operations + 1, __ATOMIC_SEQ_CST);
	u32 seen = __atomic_load_n(word, __ATOMIC_SEQ_CST);
	if (!has_come_for(context->domain, awaits))
		futex_wait(word, seen, LOOK_AGAIN_MS);
}

/* Whether the thread waits for itself, by way of others; `ended`: how many operations these have
 * ended. */
static u32 is_in_circle(const struct context *context, u64 *ended)
{
	struct awaits next = context->awaits;
	*ended = 0;
	for (u32 i = 0; i <= context->process->region_count; i++) {
		if (!next.stream || has_come_for(context->domain, &next))
			return 0;
		if (next.stream == as_holder(context))
			return 1;
		*ended += come_to(next.stream - 1);
		const struct context *other = progress_of(next.stream - 1)->context;
		next = other ? other->awaits : (struct awaits){.stream = 0};
	}
	return 0;
}

/* What threads wait for is looked at one by one, and changes meanwhile: a circle is one only if it
 * stays as it is. */
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
	while (!has_come_for(context->domain, awaits)) {
		sleep_until(context, awaits);
		refuse_circle(context, &circle);
		if (patience_spent(&patience, come_to(awaits->stream - 1)))
			diverge(context, WHY_LATE, awaits->stream - 1, awaits->operations);
	}
}

static SELDOM void wait_for(struct context *context, const struct awaits *awaits)
{
	u32 before = context->slot->baton.state;
	log_stand_at(context);
	if (settles(context)) {
		settle(context, awaits);
		return;
	}
	context->awaits = *awaits;
	context->slot->baton.state = BATON_WAITING;
	wait_side_by_side(context, awaits);
	context->slot->baton.state = before;
	context->awaits = (struct awaits){.stream = 0};
}

u64 operations_at_end(const struct event *event)
{
	const struct sections_body *body = (const struct sections_body *)(event + 1);
	return event && event->size >= sizeof *event + sizeof *body ? body->operations : 0;
}

/* 1: it is of the thread's next operation, which comes behind another thread's. */
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

void operation_await(struct context *context)
{
	const struct event *event = log_peek(context);
	while (event && is_of_next(context, event)) {
		const struct after_body *body = (const struct after_body *)(event + 1);
		struct awaits awaits = {
			.stream = body->stream + 1, .operations = (u64)event->value};
		if (UNLIKELY(!has_come_for(context->domain, &awaits) &&
			     !comes_soon(context, &awaits)))
			wait_for(context, &awaits);
		log_take(context, EVENT_AFTER, 0);
		event = log_peek(context);
	}
	if (UNLIKELY(!event || event->kind == EVENT_END) &&
		context->operations >= operations_at_end(event))
		end_of_stream(context); /* the recorded thread came no further */
}

/* Since the recorded thread was here, or before, its process has joined those that share memory:
 * then the baton orders it, in a turn that begins with it. */
static u32 is_by_clock(struct context *context)
{
	const struct event *event = log_peek(context);
	const struct sections_body *body = (const struct sections_body *)(event + 1);
	if (!has_progress(context))
		return 0;
	return !event || event->kind != EVENT_TURN || event->number != TURN_SHARED ||
	       !(event->flags & TURN_SECTION) || event->size < sizeof *event + sizeof *body ||
	       body->sections != context->turn_sections || body->operations != context->operations;
}

u32 operation_is_next(struct context *context)
{
	if (!is_by_clock(context))
		return 0;
	operation_await(context);
	return 1;
}

static void end_replayed(struct context *context)
{
	struct progress *progress = progress_of(context->slot->stream);
	u64 come = ++context->operations + 1;
	__atomic_store_n(&progress->operations, come, __ATOMIC_RELEASE);
	if (UNLIKELY(__atomic_load_n(&progress->wake_at, __ATOMIC_RELAXED) == come))
		futex_wake((u32 *)&progress->operations, 0x7fffffff);
	section_look_ahead(context);
}

/* ---- both ---- */

u32 operation_begin(struct context *context, u64 operand)
{
	section_note(context);
	if (UNLIKELY(context->comparing))
		diverge(context, WHY_SECTIONS, 1, 0); /* see section_enter */
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
	context->operating = 0;
	if (makes_order())
		end_recorded(context);
	else
		end_replayed(context);
}

void operation_abandon(struct context *context)
{
	context->operating = 0;
	context->comparing = 0;
	if (makes_order())
		unlock_clock(context->clock);
}

void operations_inherit(struct context *child)
{
	child->operating = child->settled = 0;
	child->quick = (struct quick){.is_on = 0};
	child->operand = child->operations = 0;
	memset(child->known, 0, sizeof child->known);
}
