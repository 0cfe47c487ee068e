/* Replay: obeys the recorded order of turns. Private stack.
 *
 * A thread that meets a TURN event in its stream lost the baton there. Its turn is over, and it
 * waits until all turns before the one in the event are over. */
#include "order/turn.h"
#include "base/futex.h"
#include "base/shared.h"
#include "base/state.h"
#include "log/end.h"
#include "log/log.h"
#include "log/settle.h"
#include "order/after.h"
#include "order/baton.h"
#include "order/home.h"
#include "order/policy.h"
#include "order/waiting.h"

static void be_patient(struct context *context, struct patience *patience)
{
	u64 completed = context->domain->completed, spent = patience_spent(patience, completed);
	if (spent)
		diverge(context, WHY_STUCK, completed + 1, spent / 1000000);
}

static void await_at_gate(struct context *context, const struct awaits *awaits)
{
	struct turn_gate *gate = gate_of(context->domain, awaits->turn);
	tell_awaited(context, awaits);
	__atomic_add_fetch(&gate->waiters, 1, __ATOMIC_SEQ_CST);
	for (struct patience patience = {0, 0};; be_patient(context, &patience)) {
		u32 seen = __atomic_load_n(&gate->word, __ATOMIC_SEQ_CST);
		if (has_come_for(context, awaits))
			break;
		context->slot->baton.state = BATON_WAITING;
		if (never_comes(context, awaits->turn))
			end_of_stream(context);
		futex_wait(&gate->word, seen, wait_ms());
	}
	__atomic_sub_fetch(&gate->waiters, 1, __ATOMIC_SEQ_CST);
}

void turn_await(struct context *context, const struct turn_event *next)
{
	struct awaits awaits = {.turn = next->turn};
	if (settles(context))
		settle(context, &awaits);
	else if (!comes_soon(context, &awaits))
		await_at_gate(context, &awaits);
	context->slot->baton.state = BATON_HOLDING;
	context->turn = next->turn;
	context->in_section = 1;
	context->turn_sections = 0;
	if (orders_plainly())
		home_follow(context, context->domain, next->turn);
	if (UNLIKELY(next->flags & TURN_JOINS))
		after_await(context);
}

struct turn_event turn_take(struct context *context)
{
	const struct event *event = log_peek(context);
	struct turn_event next = {(u64)event->value, event->number, event->flags};
	log_take(context, EVENT_TURN, next.kind);
	return next;
}

void turn_give_up(struct context *context, const struct turn_event *next)
{
	struct process *process = context->process;
	turn_complete(context);
	if (orders_by_sections() && !process->domain)
		context->sections = next->flags & TURN_IN_TURNS ? 0
				    : settled()			? SECTIONS_WHOLE
								: SECTIONS_SHORT;
	if (next->kind == TURN_SHARED) {
		context->quick.is_on = QUICK_NONE;
		context->domain = process->domain = &HEADER->shared_domain;
	}
	if (next->kind == TURN_FIRST_THREAD) {
		process->private_domain = (struct domain){.lock = 0};
		context->domain = process->domain = &process->private_domain;
		if (orders_by_sections())
			progress_create(context);
	}
	if (!context->domain)
		diverge(context, WHY_CORRUPT, next->turn, 0);
}

static void obey(struct context *context)
{
	struct turn_event next = turn_take(context);
	turn_give_up(context, &next);
	turn_await(context, &next);
}

void turn_obey_next(struct context *context)
{
	const struct event *event = log_peek(context);
	if (!event || event->kind == EVENT_END)
		end_of_stream(context); /* the recorded thread never got the baton back */
	if (event->kind != EVENT_TURN)
		diverge(context, WHY_KIND, event->kind, EVENT_TURN);
	obey(context);
}

/* The operations must match where a TURN event begins a section. */
static void compare_operations(struct context *context, const struct event *event)
{
	const struct sections_body *body = (const struct sections_body *)(event + 1);
	if (event->kind == EVENT_TURN && event->size >= sizeof *event + sizeof *body &&
		body->operations != context->operations)
		diverge(context, WHY_OPERATIONS, body->operations, context->operations);
}

void turn_enter_section(struct context *context)
{
	const struct event *event = log_peek(context);
	u64 sections = sections_of_turn(context, event);
	if (context->turn_sections >= sections) {
		if (!event || event->kind == EVENT_END)
			end_of_stream(context); /* the recorded thread never got the baton again */
		if (context->turn_sections > sections)
			diverge(context, WHY_SECTIONS, sections, context->turn_sections);
		compare_operations(context, event);
		obey(context);
		return;
	}
	if (!context->turn)
		diverge(context, WHY_SECTIONS, sections, context->turn_sections);
	context->in_section = 1;
}

void turn_leave_section(struct context *context)
{
	context->turn_sections += !context->undone;
	context->in_section = 0;
	if (turn_is_over(context))
		turn_ends(context);
}

void turn_leave(struct context *context)
{
	const struct event *event = log_peek(context);
	if (event->number != TURN_GIVEN)
		return;
	log_take(context, EVENT_TURN, TURN_GIVEN);
	turn_obey_next(context);
}
