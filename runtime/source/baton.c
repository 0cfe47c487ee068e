/* The baton: of all threads that share writable memory, one runs user code at a time. Private stack.
 *
 * Record: it is a lock. A thread gives it up around calls that may wait, and takes it back; only when the holder changed in between is a TURN
 * event logged, with a number that counts the changes. Replay: the numbers are obeyed. A thread that meets a TURN event in its stream lost the
 * baton there: its turn is over, and it waits until all turns before the one in the event are.
 * Handing over costs a system call only when somebody waits. */
#include "../include/context.h"

#define CHAOS_LOOKS 20 /* of a millisecond each, at most */

static u32 me(struct context *context) { return context->slot->stream + 1; }

void log_turn(struct context *context, u16 kind, u64 turn)
{
	context->turn = turn;
	ring_event(context, EVENT_TURN, 0, kind, (i64)turn, NULL, 0);
	context->slot->turn_logged = turn;
}

/* ---- record ---- */

static u32 take(struct context *context, struct domain *domain, u64 *turn)
{
	domain->wake_pending = 0;
	context->slot->baton_state = BATON_HOLDING;
	context->seen_tick = HEADER->yield_tick - chaos(); /* chaos is asked at every sync point */
	force_open(context);
	if (domain->last == me(context))
		return 0;
	context->slot->turn = domain->turn + 1; /* first: should we be killed here, the supervisor logs the turn that is taken */
	domain->turn = context->slot->turn;
	domain->last = me(context);
	*turn = domain->turn;
	return 1;
}

static u32 lock(struct context *context, struct domain *domain, u32 *holder)
{
	*holder = 0;
	return __atomic_compare_exchange_n(&domain->lock, holder, me(context), 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void wait_for_lock(struct context *context, struct domain *domain)
{
	u32 holder;
	while (!lock(context, domain, &holder)) {
		__atomic_store_n(&domain->wake_pending, 0, __ATOMIC_SEQ_CST);
		futex_wait(&domain->lock, holder, 100);
	}
}

/* Whoever has the highest priority goes first; if it does not come (it may have been killed), anybody. */
static void wait_in_chaos(struct context *context, struct domain *domain)
{
	for (u32 look = 0;; look++) {
		u32 holder = __atomic_load_n(&domain->lock, __ATOMIC_SEQ_CST);
		if ((look >= CHAOS_LOOKS || chaos_goes_first(context)) && lock(context, domain, &holder))
			return;
		futex_wait(&domain->lock, holder, 1);
	}
}

u32 baton_acquire(struct context *context, u64 *turn)
{
	struct domain *domain = context->process->domain;
	struct slot *slot = context->slot;
	u32 holder;
	if (UNLIKELY(chaos())) {
		slot->baton_domain = domain->identity;
		chaos_delay(context);
	} else if (LIKELY(lock(context, domain, &holder)))
		return take(context, domain, turn);
	u64 start = now_ns();
	__atomic_store_n(&slot->baton_state, BATON_WAITING, __ATOMIC_RELEASE);
	__atomic_add_fetch(&domain->waiters, 1, __ATOMIC_SEQ_CST);
	if (chaos())
		wait_in_chaos(context, domain);
	else
		wait_for_lock(context, domain);
	__atomic_sub_fetch(&domain->waiters, 1, __ATOMIC_SEQ_CST);
	slot->baton_waits++;
	slot->baton_wait_ns += now_ns() - start;
	return take(context, domain, turn);
}

void baton_release(struct context *context)
{
	struct domain *domain = context->process->domain;
	force_close(context); /* a forcing signal would end the call that comes with EINTR */
	context->slot->baton_state = BATON_NONE;
	__atomic_store_n(&domain->lock, 0, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&domain->waiters, __ATOMIC_SEQ_CST))
		return;
	if (chaos())
		futex_wake(&domain->lock, 0x7fffffff); /* they find out among themselves who goes first */
	else if (!__atomic_exchange_n(&domain->wake_pending, 1, __ATOMIC_SEQ_CST))
		futex_wake(&domain->lock, 1);
}

/* Chaos: whoever waits goes first, or whoever comes during the delay; or nobody. 1: somebody did. */
static u32 give_away(struct context *context, u64 *turn)
{
	chaos_new_priority(context);
	baton_release(context);
	return baton_acquire(context, turn);
}

/* Chaos, at a sync point. Where no baton is, other processes run anyway. */
static void yield_in_chaos(struct context *context)
{
	u64 turn;
	if (!chaos_one_in(context, HEADER->chaos.yield_one_in))
		return;
	if (!context->process->domain)
		chaos_delay(context);
	else if (give_away(context, &turn))
		log_turn(context, TURN_AGAIN, turn);
}

/* Called at a sync point, when the supervisor's clock says that somebody has waited long. */
void baton_yield(struct context *context)
{
	struct domain *domain = context->process->domain;
	if (chaos()) {
		yield_in_chaos(context);
		return;
	}
	if (!domain)
		return;
	u64 turn = domain->turn;
	context->seen_tick = HEADER->yield_tick;
	if (!__atomic_load_n(&domain->waiters, __ATOMIC_SEQ_CST))
		return;
	baton_release(context);
	for (u32 i = 0; i < 50 && __atomic_load_n(&domain->turn, __ATOMIC_ACQUIRE) == turn; i++)
		sys0(NR_sched_yield);
	if (baton_acquire(context, &turn))
		log_turn(context, TURN_AGAIN, turn);
}

/* At a forced point, which says that a TURN event follows: there is one even if nobody took the baton. */
static void offer(struct context *context)
{
	struct domain *domain = context->process->domain;
	u64 turn = domain->turn;
	if (chaos()) {
		if (!give_away(context, &turn))
			turn = domain->turn = context->slot->turn = domain->turn + 1;
		log_turn(context, TURN_AGAIN, turn);
		return;
	}
	baton_release(context);
	for (u32 i = 0; i < 50 && __atomic_load_n(&domain->turn, __ATOMIC_ACQUIRE) == turn; i++)
		sys0(NR_sched_yield);
	if (!baton_acquire(context, &turn))
		turn = domain->turn = context->slot->turn = domain->turn + 1;
	log_turn(context, TURN_AGAIN, turn);
}

/* What comes after the call may be for others to see, so the log says that the baton was given away even if it never comes back. */
void baton_leave(struct context *context)
{
	if (!context->process->domain || !chaos_one_in(context, HEADER->chaos.yield_one_in))
		return;
	ring_event(context, EVENT_TURN, 0, TURN_GIVEN, 0, NULL, 0);
	offer(context);
}

void baton_create(struct context *context, u32 kind)
{
	struct process *process = context->process;
	u64 turn = 0;
	if (tracing())
		return;
	process->domain = kind == TURN_SHARED ? &HEADER->shared_domain : &process->private_domain;
	if (kind == TURN_FIRST_THREAD)
		process->private_domain = (struct domain){ 0 };
	process->domain->identity = kind == TURN_SHARED ? ~0U : context->pid;
	baton_acquire(context, &turn);
	log_turn(context, (u16)kind, turn ? turn : process->domain->turn);
}

/* ---- replay ---- */

static void complete(struct context *context)
{
	struct domain *domain = context->process->domain;
	if (!domain || !context->turn)
		return;
	__atomic_store_n(&domain->completed, context->turn, __ATOMIC_RELEASE);
	context->turn = 0;
	__atomic_add_fetch(&domain->futex, 1, __ATOMIC_SEQ_CST);
	futex_wake(&domain->futex, 0x7fffffff);
}

static void wait_for_turn(struct context *context, u64 turn)
{
	struct domain *domain = context->process->domain;
	for (;;) {
		u32 seen = __atomic_load_n(&domain->futex, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&domain->completed, __ATOMIC_ACQUIRE) + 1 >= turn)
			break;
		context->slot->baton_state = BATON_WAITING;
		futex_wait(&domain->futex, seen, 1000);
	}
	context->slot->baton_state = BATON_HOLDING;
	context->turn = turn;
}

/* `at_call`: the thread has come to the call that follows in its stream, so what that one prints is in memory. */
static void replay_turn(struct context *context, const struct event *event, u32 at_call)
{
	struct process *process = context->process;
	u64 turn = (u64)event->value;
	u16 kind = event->number;
	u8 in_call = event->flags & TURN_IN_CALL;
	log_take(context, EVENT_TURN, kind);
	if (in_call)
		call_verify_early(context);
	complete(context);
	if (kind == TURN_SHARED) {
		process->domain = &HEADER->shared_domain;
		process->shares = 1;
	}
	if (kind == TURN_FIRST_THREAD) {
		process->private_domain = (struct domain){ 0 };
		process->domain = &process->private_domain;
	}
	if (!process->domain)
		diverge(context, WHY_CORRUPT, turn, 0);
	event = log_peek(context);
	if (at_call && event && event->kind == EVENT_CALL && event->flags & (CALL_CONSOLE_OUT | CALL_CONSOLE_ERR)) {
		console_replay(context, event);
		context->printed = 1;
	}
	wait_for_turn(context, turn);
}

void baton_replay(struct context *context, u32 at_call)
{
	for (;;) {
		const struct event *event = log_peek(context);
		if (LIKELY(!event || event->kind != EVENT_TURN))
			return;
		replay_turn(context, event, at_call);
	}
}

void baton_replay_leave(struct context *context)
{
	const struct event *event = log_peek(context);
	if (event->number != TURN_GIVEN)
		return;
	log_take(context, EVENT_TURN, TURN_GIVEN);
	baton_offer(context);
}

/* ---- both ---- */

void baton_begin(struct context *context)
{
	u64 turn;
	if (!context->process->domain)
		return;
	if (!recording())
		baton_offer(context); /* a new thread always waits for its turn; it may have died before */
	else if (baton_acquire(context, &turn))
		log_turn(context, TURN_AGAIN, turn);
}

void baton_offer(struct context *context)
{
	if (recording()) {
		offer(context);
		return;
	}
	const struct event *event = log_peek(context);
	if (!event || event->kind == EVENT_END)
		end_of_stream(context); /* it never got the baton back */
	if (event->kind != EVENT_TURN)
		diverge(context, WHY_KIND, event->kind, EVENT_TURN);
	replay_turn(context, event, 0); /* this one only: the next may be of the system call that comes */
}

/* The whole process ends. Its own threads get no turn any more; those of others in the domain do. */
void baton_end_process(struct context *context)
{
	if (context->process->domain != &context->process->private_domain)
		baton_end(context);
}

void baton_end(struct context *context)
{
	if (!context->process->domain)
		return;
	if (!recording())
		complete(context);
	else if (context->process->domain->lock == me(context))
		baton_release(context);
}
