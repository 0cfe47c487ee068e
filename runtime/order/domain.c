/* How a thread enters the domain in which it takes turns, and leaves it. Private stack. */
#include "order/domain.h"
#include "base/shared.h"
#include "base/state.h"
#include "log/end.h"
#include "log/gate.h"
#include "order/baton.h"
#include "order/home.h"
#include "order/observe.h"
#include "order/operation.h"
#include "order/policy.h"
#include "order/turn.h"

/* ---- record ---- */

/* Decides, when a process of one thread is about to have a domain, whether its threads run in
 * turns. Code that is loaded later does not change that. */
static u8 choose_order(struct context *context)
{
	u32 because = context->process->untold;
	if (!orders_by_choice())
		return 0;
	__atomic_add_fetch(because ? &HEADER->serial_processes : &HEADER->parallel_processes, 1,
		__ATOMIC_RELAXED);
	context->sections = because ? 0 : SECTIONS_SHORT;
	if (!because)
		return 0;
	HEADER->serial_because = because;
	return TURN_IN_TURNS;
}

static void begin_domain(struct context *context, struct domain *domain, u16 kind)
{
	u64 turn;
	u8 flags = context->process->domain ? TURN_JOINS : choose_order(context);
	baton_take(context, domain, &turn);
	if (!(flags & TURN_JOINS))
		__atomic_store_n(&context->process->domain, domain, __ATOMIC_RELEASE);
	log_turn_with(context, flags, kind, turn);
	if (flags & TURN_JOINS) {
		operations_join(context, domain);
		observe_all(context);
	}
}

void baton_create(struct context *context)
{
	struct process *process = context->process;
	process->private_domain = (struct domain){.lock = as_holder(context),
		.identity = context->slot->pid,
		.epoch = __atomic_add_fetch(&HEADER->last_epoch, 1, __ATOMIC_RELAXED)};
	begin_domain(context, &process->private_domain, TURN_FIRST_THREAD);
	observed_create(context);
}

/* The process's own baton is kept until its earlier turns are over and its first turn in the shared
 * domain has begun. Threads that wait for the own baton, or come later, find it merged. */
void baton_join(struct context *context)
{
	struct domain *own = context->process->domain;
	HEADER->shared_domain.identity = ~0U;
	baton_obtain(context, &HEADER->shared_domain);
	begin_domain(context, &HEADER->shared_domain, TURN_SHARED);
	if (own)
		baton_merge(own);
}

/* ---- both ---- */

/* `child`: the first thread of a new process. The process inherits its parent's shared memory, but
 * no other thread. */
void baton_inherit(struct context *child)
{
	struct domain *domain = domain_of(child);
	child->domain = child->process->domain = shares_memory(domain) ? domain : NULL;
	if (!child->domain)
		home_leave(child);
}

void baton_begin(struct context *context)
{
	u64 turn;
	if (!domain_of(context))
		return;
	if (has_progress(context))
		progress_begin(context);
	if (makes_order())
		observed_begin(context);
	if (obeys_order())
		/* A new thread always waits for its turn; while recording it may have died before
		 * it got one. */
		turn_obey_next(context);
	else if (baton_acquire(context, &turn))
		log_turn(context, turn_kind(context), turn);
}

/* The whole process ends. Its own threads get no turn any more; those of other processes in the
 * domain do. */
void baton_end_process(struct context *context)
{
	if (obeys_order())
		turns_end(context);
	else if (context->process->domain != &context->process->private_domain)
		baton_end(context);
}

void baton_end(struct context *context)
{
	if (!domain_of(context))
		return;
	if (obeys_order())
		turn_complete(context);
	else if (context->process->domain->lock == as_holder(context))
		baton_release(context);
}
