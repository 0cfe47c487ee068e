/* The baton: of all threads that share writable memory, only the one that holds it runs user code.
 * Private stack.
 *
 * While recording the baton is a lock. A thread gives it up around calls that may wait, and takes
 * it back afterwards. If the holder changed in between, the thread logs a TURN event with a number
 * that counts the changes. Replay obeys the numbers, see turn.c. Handing over costs a system call
 * only if a thread waits.
 *
 * A call that never waits for long returns before another thread could take over. During such a
 * call the baton is lent: only threads that may ask for it take it then.
 *
 * A thread that computes gives up the baton only when it is stopped, which is expensive. So once a
 * thread has waited long for the baton after a call, all threads that make calls have credit. For
 * as long as that thread waited, these threads share the baton among themselves, and threads that
 * were stopped let them return from their calls first. */
#include "order/baton.h"
#include "base/futex.h"
#include "base/interception.h"
#include "base/rounds.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "log/ring.h"
#include "order/chaos.h"
#include "order/forcing.h"
#include "order/holder.h"
#include "order/home.h"
#include "order/policy.h"
#include "order/turn.h"

/* Looks at the lock, of at most a millisecond each. */
#define CHAOS_LOOKS 20
/* Spinning takes some microseconds: as long as a short call, and less than going to sleep and being
 * woken. */
#define MOST_SPINS 1000
#define LEAST_SPINS 200
/* A shorter wait earns no credit: no thread computes then. */
#define LEAST_WAIT_FOR_CREDIT_NS 900000UL
/* The longest credit while any thread computes, see crates/record/src/slices.rs. */
#define MOST_CREDIT_NS 240000000UL
/* Where many threads compute, credit is a fair part of this time. */
#define ROUND_NS 1000000000UL
/* How long a stopped thread waits for one that is in a call. */
#define EXPECTED_MS 1UL
/* After an expected thread did not come, none is waited for during this time. */
#define UNEXPECTED_NS 25000000UL
/* The wait after which a thread asks for the baton, if it comes from a call. */
#define ASK_AFTER_MS 1UL
/* The same for stopped threads, which would only take turns in computing. */
#define ASK_STOPPED_MS 10UL
/* How often the baton is lent in a turn before a call wakes a waiting thread. */
#define MOST_LENT 200
#define LONGEST_LOOK_MS 100UL
/* Some rounds of the kernel's scheduler. */
#define MOST_COURTESY_MS 20UL
/* No ordinary hand-over takes this long, so the waiting thread makes the drain look. */
#define RING_AFTER_MS 4UL

void log_turn_with(struct context *context, u8 flags, u16 kind, u64 turn)
{
	ring_event(context, EVENT_TURN, flags, kind, (i64)turn, NULL, 0);
	note_turn(context, turn);
}

void log_turn(struct context *context, u16 kind, u64 turn)
{
	log_turn_with(context, 0, kind, turn);
}

static SELDOM void begin_turn(struct context *context, struct domain *domain)
{
	context->domain = domain;
	/* Comes first: if the thread is killed here, the supervisor logs the turn that it took. */
	context->slot->baton.turn = domain->turn + 1;
	domain->turn = context->slot->baton.turn;
	domain->last = as_holder(context);
	domain->lent = 0;
	if (orders_plainly())
		home_follow(context, domain, domain->turn);
	domain->core = this_core();
	if (!orders_by_sections())
		rounds_arm(context, rounds_so_far(context) + LEAST_ROUNDS);
}

u32 baton_take(struct context *context, struct domain *domain, u64 *turn)
{
	domain->wake_pending = 0;
	context->process->holder = context;
	context->slot->baton.state = BATON_HOLDING;
	/* Chaos asks the thread to yield at every sync point. */
	context->seen_tick = HEADER->yield_tick - orders_at_random();
	context->in_section = 1;
	force_open(context);
	if (UNLIKELY(context->process->unknown_calls && !context->counter_traps))
		arm_interception(context);
	if (UNLIKELY(context->sections))
		context->slot->baton.turn_sections = context->turn_sections;
	if (LIKELY(domain->last == as_holder(context) && context->domain == domain))
		return 0;
	begin_turn(context, domain);
	*turn = domain->turn;
	return 1;
}

/* Takes the lock from `*holder`. If another thread has it, `*holder` becomes that one. */
static u32 lock_from(struct context *context, struct domain *domain, u32 *holder)
{
	return __atomic_compare_exchange_n(
		&domain->lock, holder, as_holder(context), 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static u32 lock(struct context *context, struct domain *domain, u32 *holder)
{
	*holder = 0;
	return lock_from(context, domain, holder);
}

/* Spins for the lock, as most turns are short. The thread learns from earlier turns how long
 * spinning pays, but it spins no shorter than going to sleep takes. A thread that spins on the
 * holder's own core would only delay the holder. */
static SELDOM u32 spin(struct context *context, struct domain *domain)
{
	u32 holder, limit = orders_by_sections()
				    ? SECTION_SPINS
				    : (u32)minimum(2 * context->spins + LEAST_SPINS, MOST_SPINS);
	if (__atomic_load_n(&domain->core, __ATOMIC_RELAXED) == this_core() &&
		!orders_by_sections())
		return 0;
	for (u32 i = 0; i < limit; i++) {
		__builtin_ia32_pause();
		if (!__atomic_load_n(&domain->lock, __ATOMIC_RELAXED) &&
			lock(context, domain, &holder)) {
			context->spins = (7 * context->spins + i + 7) / 8;
			return 1;
		}
	}
	context->spins -= context->spins / 8;
	return 0;
}

/* Keeps a stopped thread away from the baton while threads with credit return from their calls in
 * time. Handing the baton to one of these wakes no stopped thread. */
static void wait_for_expected(struct context *context, struct domain *domain)
{
	u32 expected, holder;
	while (context->slot->baton.state == BATON_STOPPED &&
		(expected = __atomic_load_n(&domain->expected, __ATOMIC_SEQ_CST))) {
		if (__atomic_load_n(&domain->callers, __ATOMIC_SEQ_CST))
			/* This thread may have been woken in place of a caller. */
			futex_wake(&domain->lock, 1);
		holder = __atomic_load_n(&domain->lock, __ATOMIC_SEQ_CST);
		futex_wait(&domain->expected, expected, EXPECTED_MS);
		if (!holder && __atomic_load_n(&domain->expected, __ATOMIC_SEQ_CST) == expected &&
			!__atomic_load_n(&domain->lock, __ATOMIC_SEQ_CST)) {
			domain->late_ns = now_ns();
			return;
		}
	}
}

/* Lets a waiting thread take the baton, which is free. That thread may be stopped or dead, so the
 * wait gets shorter each time that no thread came. */
static SELDOM void give_way(struct context *context, struct domain *domain)
{
	u64 most = MOST_COURTESY_MS >> minimum(context->refused, 8);
	context->gives_way = 0;
	futex_wait(&domain->lock, 0, most ? most : 1);
}

/* The time after which a thread that has waited `waited` milliseconds looks again: when it may ask,
 * when it rings, and then at growing intervals. The intervals also grow with the number of waiting
 * threads. */
static u64 look_again_ms(const struct domain *domain, u64 waited, u64 patience)
{
	u64 longest = LONGEST_LOOK_MS + __atomic_load_n(&domain->waiters, __ATOMIC_RELAXED) / 2;
	if (waited < minimum(patience, RING_AFTER_MS))
		return minimum(patience, RING_AFTER_MS) - waited;
	return waited < RING_AFTER_MS ? RING_AFTER_MS - waited : minimum(waited, longest);
}

static void wait_for_lock(struct context *context, struct domain *domain)
{
	u32 holder, rung = 0;
	u64 start = now_ns(), patience = context->force.stopped ? ASK_STOPPED_MS : ASK_AFTER_MS;
	if (UNLIKELY(context->gives_way))
		give_way(context, domain);
	for (;;) {
		wait_for_expected(context, domain);
		if (lock(context, domain, &holder))
			return;
		u64 waited = (now_ns() - start) / 1000000;
		if (waited >= patience) {
			u32 lent = holder;
			if (holder & LENT && lock_from(context, domain, &lent))
				return;
			ask_holder(domain, holder);
		}
		if (!rung && waited >= RING_AFTER_MS) {
			ring_drain();
			rung = 1;
		}
		__atomic_store_n(&domain->wake_pending, 0, __ATOMIC_SEQ_CST);
		futex_wait(&domain->lock, holder, look_again_ms(domain, waited, patience));
	}
}

/* The thread with the highest priority goes first. If it does not come, perhaps because it was
 * killed, any other thread goes. */
static void wait_in_chaos(struct context *context, struct domain *domain)
{
	for (u32 look = 0;; look++) {
		u32 holder = __atomic_load_n(&domain->lock, __ATOMIC_SEQ_CST);
		if ((look >= CHAOS_LOOKS || chaos_goes_first(context)) &&
			lock(context, domain, &holder))
			return;
		futex_wait(&domain->lock, holder, 1);
	}
}

/* Called by the holder. Credit ends when no stopped thread waits. */
static SELDOM u32 has_credit_yet(struct domain *domain, u64 *now)
{
	if (__atomic_load_n(&domain->waiters, __ATOMIC_RELAXED) <=
		__atomic_load_n(&domain->callers, __ATOMIC_RELAXED))
		return 0;
	*now = now_ns();
	if (*now >= domain->credit_until_ns)
		domain->credit_until_ns = 0;
	return domain->credit_until_ns != 0;
}

u32 baton_has_credit(struct domain *domain, u64 *now)
{
	return UNLIKELY(domain->credit_until_ns) && has_credit_yet(domain, now);
}

static u32 is_expected(struct domain *domain)
{
	u64 now;
	return baton_has_credit(domain, &now) && now - domain->late_ns >= UNEXPECTED_NS;
}

/* The first thread that gets the baton after a stop earns credit, and only once a stop; otherwise
 * threads that make calls could keep the baton for ever. */
static void earn_credit(struct domain *domain, u64 waited, u64 now)
{
	if (domain->turn == domain->stopped_turn && waited >= LEAST_WAIT_FOR_CREDIT_NS)
		domain->credit_until_ns =
			now + minimum(waited, minimum(MOST_CREDIT_NS, ROUND_NS / domain->waiters));
}

/* Wakes waiting threads. `expected`: the holder is expected back, and `before` says whether it was
 * before. Once a stopped thread knows that, only callers are woken while it lasts. */
static SELDOM void wake_waiters(struct domain *domain, u32 expected, u32 before)
{
	if (expected && before && !__atomic_load_n(&domain->callers, __ATOMIC_SEQ_CST))
		return;
	if (orders_at_random() || domain->merged)
		/* The woken threads find out who goes first, or that they have to wait elsewhere.
		 */
		futex_wake(&domain->lock, 0x7fffffff);
	else if (!__atomic_exchange_n(&domain->wake_pending, 1, __ATOMIC_SEQ_CST))
		futex_wake(&domain->lock, 1);
}

static void unlock(struct domain *domain, u32 expected)
{
	u32 before = domain->expected;
	if (UNLIKELY(before | expected))
		__atomic_store_n(&domain->expected,
			!expected    ? 0
			: before + 1 ? before + 1
				     : 1,
			__ATOMIC_SEQ_CST);
	__atomic_store_n(&domain->lock, 0, __ATOMIC_SEQ_CST);
	if (UNLIKELY(__atomic_load_n(&domain->waiters, __ATOMIC_SEQ_CST)))
		wake_waiters(domain, expected, before);
}

/* Marks a waiting thread that has a deferred signal to deliver, so that the holder does not keep it
 * waiting for long. Called from the signal handler, too. */
void baton_signalled(struct context *context)
{
	u32 state = context->slot->baton.state;
	if (!orders_at_random() && (state == BATON_WAITING || state == BATON_STOPPED))
		__atomic_store_n(&context->slot->baton.state, BATON_SIGNALLED, __ATOMIC_RELEASE);
}

static SELDOM void wait_for_baton(struct context *context, struct domain *domain)
{
	struct slot *slot = context->slot;
	u32 at_random = orders_at_random(), called = !context->force.stopped || at_random;
	if (at_random) {
		slot->baton.domain = domain->identity;
		chaos_delay(context);
	}
	u64 start = now_ns();
	__atomic_store_n(
		&slot->baton.state, called ? BATON_WAITING : BATON_STOPPED, __ATOMIC_RELEASE);
	if (context->deferred_count)
		baton_signalled(context);
	__atomic_add_fetch(&domain->callers, called, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&domain->waiters, 1, __ATOMIC_SEQ_CST);
	if (at_random)
		wait_in_chaos(context, domain);
	else
		wait_for_lock(context, domain);
	u64 end = now_ns(), waited = end - start;
	if (called && !at_random)
		earn_credit(domain, waited, end);
	__atomic_sub_fetch(&domain->waiters, 1, __ATOMIC_SEQ_CST);
	__atomic_sub_fetch(&domain->callers, called, __ATOMIC_SEQ_CST);
	slot->baton.waits++;
	slot->baton.wait_ns += waited;
}

static inline __attribute__((always_inline)) void obtain(
	struct context *context, struct domain *domain)
{
	u32 holder, at_once = !orders_at_random() && !context->gives_way &&
			      (!domain->expected || !context->force.stopped);
	if (UNLIKELY(!at_once || (!lock(context, domain, &holder) && !spin(context, domain))))
		wait_for_baton(context, domain);
}

void baton_obtain(struct context *context, struct domain *domain) { obtain(context, domain); }

void baton_merge(struct domain *domain)
{
	domain->merged = 1;
	unlock(domain, 0);
}

/* Another thread of the process may have made it join the shared domain while this one waited or
 * was in a call. Then the baton that it got is useless. */
static SELDOM u32 is_of_use(struct context *context, struct domain *domain)
{
	struct process *process = context->process;
	u32 alone = __atomic_load_n(&process->seen.alone, __ATOMIC_ACQUIRE),
	    is_kept_out = alone && alone != as_holder(context);
	if (!is_kept_out && !domain->merged)
		return 1;
	if (!is_kept_out)
		__atomic_store_n(&process->domain, &HEADER->shared_domain, __ATOMIC_RELEASE);
	unlock(domain, 0);
	if (is_kept_out)
		futex_wait(&process->seen.alone, alone, 0);
	return 0;
}

static inline __attribute__((always_inline)) struct domain *obtain_own(struct context *context)
{
	const struct process *process = context->process;
	for (;;) {
		struct domain *domain = __atomic_load_n(&process->domain, __ATOMIC_ACQUIRE);
		obtain(context, domain);
		if (LIKELY(!__atomic_load_n(&process->seen.alone, __ATOMIC_ACQUIRE) &&
			    !domain->merged) ||
			is_of_use(context, domain))
			return domain;
	}
}

u32 baton_acquire(struct context *context, u64 *turn)
{
	return baton_take(context, obtain_own(context), turn);
}

/* The holder gives the baton up to end all other threads of its process. Without `alone` they would
 * run on to an unknown place, visibly to other processes. */
void baton_keep_alone(struct context *context, u32 alone)
{
	u32 *word = &context->process->seen.alone;
	if (!alone && !*word)
		return;
	__atomic_store_n(word, alone ? as_holder(context) : 0, __ATOMIC_RELEASE);
	if (!alone)
		futex_wake(word, 0x7fffffff);
}

void baton_release(struct context *context)
{
	/* A forcing signal would end the call that follows with EINTR. */
	force_close(context);
	context->slot->baton.state = BATON_NONE;
	context->in_section = 0;
	if (UNLIKELY(context->sections))
		/* The thread may never return from its call. Then other threads may still see what
		 * it did in this section before. */
		context->slot->baton.turn_sections = context->turn_sections + 1;
	unlock(context->process->domain, is_expected(context->process->domain));
}

u32 baton_give_way(struct context *context)
{
	context->gives_way = orders_plainly() && baton_is_wanted(context);
	return context->gives_way;
}

u32 baton_may_lend(struct context *context)
{
	const struct domain *domain = context->process->domain;
	return domain == &context->process->private_domain && orders_plainly() && !domain->expected;
}

u32 baton_lend(struct context *context)
{
	struct domain *domain = context->process->domain;
	if (domain->lent++ >= MOST_LENT)
		return 0;
	force_close(context);
	context->slot->baton.state = BATON_NONE;
	context->in_section = 0;
	__atomic_store_n(&domain->lock, as_holder(context) | LENT, __ATOMIC_SEQ_CST);
	return 1;
}

u32 baton_take_back(struct context *context, u64 *turn)
{
	struct domain *domain = context->process->domain;
	u32 lent = as_holder(context) | LENT;
	return lock_from(context, domain, &lent) ? baton_take(context, domain, turn)
						 : baton_acquire(context, turn);
}

/* ---- record: sections ---- */

static void take_section(struct context *context, struct domain *domain)
{
	u64 turn;
	if (!baton_take(context, domain, &turn))
		return;
	struct sections_body body = {context->turn_sections, context->operations};
	ring_event(context, EVENT_TURN, TURN_SECTION, turn_kind(context), (i64)turn, &body,
		sizeof body);
	note_turn(context, turn);
}

static void enter_section_recorded(struct context *context)
{
	take_section(context, obtain_own(context));
}

void baton_lock(struct context *context) { obtain_own(context); }

void baton_unlock(struct context *context)
{
	context->slot->baton.state = BATON_NONE;
	unlock(context->process->domain, 0);
}

void baton_lock_is_section(struct context *context)
{
	take_section(context, context->process->domain);
}

/* The thread goes on in its own code and may be forced there, unlike before a call that waits. */
static void leave_section_recorded(struct context *context)
{
	/* A call that is made again is the same section. */
	context->turn_sections += !context->undone;
	context->slot->baton.turn_sections = context->turn_sections;
	context->in_section = 0;
	baton_unlock(context);
}

/* ---- both ---- */

void baton_enter_section(struct context *context)
{
	if (obeys_order())
		turn_enter_section(context);
	else
		enter_section_recorded(context);
}

void baton_leave_section(struct context *context)
{
	if (obeys_order())
		turn_leave_section(context);
	else
		leave_section_recorded(context);
}
