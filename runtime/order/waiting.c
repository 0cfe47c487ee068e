/* Replay: how a thread waits for turns and operations of other threads. Private stack. */
#include "order/waiting.h"
#include "base/capabilities.h"
#include "base/futex.h"
#include "log/end.h"
#include "log/gate.h"
#include "log/log.h"
#include "log/settle.h"
#include "log/window.h"
#include "order/policy.h"
#include "order/turn.h"

#define LOOK_AGAIN_MS 1000
#define LOOK_AGAIN_CUT_MS 20
#define MOST_VAIN_SPINS 4 /* halvings of SECTION_SPINS */

u64 sections_of_turn(struct context *context, const struct event *event)
{
	const struct sections_body *body = (const struct sections_body *)(event + 1);
	if (!event)
		return cut_sections(context);
	u32 is_whole = event->size >= sizeof *event + sizeof *body;
	if (event->kind == EVENT_TURN && event->flags & TURN_SECTION && is_whole)
		return body->sections;
	if (event->kind == EVENT_AFTER && event->flags & AFTER_TURN_OVER &&
		event->size >= sizeof *event + sizeof(struct after_body))
		return ((const struct after_body *)(event + 1))->sections;
	if (event->kind == EVENT_BINDING && event->flags & BINDING_TURN_OVER && is_whole)
		return body->sections;
	if (event->kind == EVENT_END)
		return is_whole ? body->sections : 0;
	return ~0UL;
}

/* In a settled replay of processes that share memory, no other thread runs before this one has come
 * to its next section, or has ended. */
u32 turn_is_over(struct context *context)
{
	const struct event *event = log_peek(context);
	if (settled() && !settles(context) && event && event->kind != EVENT_END)
		return 0;
	return context->turn_sections >= sections_of_turn(context, event);
}

void tell_awaited(struct context *context, const struct awaits *awaits)
{
	struct baton *baton = &context->slot->baton;
	log_stand_at(context);
	baton->turn = awaits->turn;
	baton->awaited_stream = awaits->stream;
	baton->awaited = awaits->operations;
}

u32 wait_ms(void) { return streams_are_cut() ? LOOK_AGAIN_CUT_MS : LOOK_AGAIN_MS; }

/* Returns whether no thread of the process waits for an earlier turn. */
static u32 waits_for_next(const struct context *context, u64 turn)
{
	u32 pid = context->slot->pid;
	const struct slot *slots = HEADER->slots;
	for (const struct slot *slot = slots; slot < slots + HEADER->slots_used; slot++)
		if (slot->pid == pid && slot->state == SLOT_LIVE &&
			slot->baton.state == BATON_WAITING && slot->baton.turn &&
			slot->baton.turn < turn)
			return 0;
	return 1;
}

/* Threads end in the order of their turns, so a debugger finds the same end each time. */
u32 never_comes(const struct context *context, u64 turn)
{
	return turn && __atomic_load_n(&context->slot->baton.never, __ATOMIC_ACQUIRE) == turn &&
	       waits_for_next(context, turn);
}

/* Spinning is useless on a single core, or while other threads compute for long. The more often it
 * was useless, the shorter it gets. */
u32 comes_soon(struct context *context, const struct awaits *awaits)
{
	u32 limit = orders_by_sections() ? SECTION_SPINS >> context->vain_spins : 0;
	for (u32 i = 0; i < limit; i++) {
		if (has_come_for(context, awaits)) {
			context->vain_spins = 0;
			return 1;
		}
		__builtin_ia32_pause();
	}
	context->vain_spins = (u32)minimum(context->vain_spins + 1, MOST_VAIN_SPINS);
	return has_come_for(context, awaits);
}

/* ---- settled, see log/settle.c ---- */

/* All threads wait, or their common time limit has passed. */
static void stuck(struct context *context, const struct awaits *awaits, u64 spent_ns) NORETURN;
static void stuck(struct context *context, const struct awaits *awaits, u64 spent_ns)
{
	if (streams_are_cut()) {
		/* What the thread waits for is not in the recording. */
		context->settled = SETTLED_RUNS;
		end_of_stream(context);
	}
	if (awaits->stream)
		diverge(context, WHY_DEADLOCK, awaits->stream - 1, awaits->operations);
	diverge(context, WHY_STUCK, context->domain->completed + 1, spent_ns / 1000000);
}

/* `polls`: no thread of the process can run, but another process may end its turn. */
static void wait_to_run(struct context *context, u32 polls)
{
	struct patience patience = {0, 0};
	while (__atomic_load_n(&context->settled, __ATOMIC_SEQ_CST) != SETTLED_RUNS) {
		if (never_comes(context, context->awaits.turn))
			stuck(context, &context->awaits, 0);
		futex_wait(&context->settled, SETTLED_WAITS, polls ? 1 : wait_ms());
		if (polls && settle_hand_over(context->domain))
			polls = 0;
		u64 progress = context->domain->completed + context->domain->handed_over,
		    spent = patience_spent(&patience, progress);
		if (spent)
			stuck(context, &(struct awaits){.turn = 0}, spent);
	}
}

void settle(struct context *context, const struct awaits *awaits)
{
	u32 before = context->slot->baton.state;
	/* Copies of the process can be made in this state. A new thread has not run yet, so it
	 * waits first. */
	context->slot->baton.state = BATON_WAITING;
	wait_to_run(context, 0);
	while (!has_come_for(context, awaits)) {
		context->awaits = *awaits;
		tell_awaited(context, awaits);
		context->settled = SETTLED_WAITS;
		u32 polls = !settle_hand_over(context->domain);
		if (polls && !settle_waits_for_others() &&
			!(streams_are_cut() && settle_let_first_end(context)))
			stuck(context, awaits, 0);
		wait_to_run(context, polls);
	}
	context->slot->baton.state = before;
}
