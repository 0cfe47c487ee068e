/* Delivers signals to the program. Signals are delivered only at sync points, by frames that the
 * runtime builds, so that record and replay build the same frame at the same program state. The
 * master handler of entry/handler.c has deferred them until then.
 *
 * Context: the private stack. */
#include "signals/signal.h"
#include "base/debugged.h"
#include "base/interception.h"
#include "base/leave.h"
#include "base/robust.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "log/end.h"
#include "log/hash.h"
#include "log/log.h"
#include "log/look.h"
#include "log/ring.h"
#include "order/ending.h"
#include "order/observe.h"
#include "order/policy.h"
#include "order/section.h"
#include "order/turn.h"
#include "order/yield.h"
#include "place/forced.h"
#include "place/watch.h"
#include "signals/behind.h"
#include "signals/frame.h"

enum { SIG_DFL = 0, SIG_IGN = 1 };
#define SA_NOCLDSTOP 1UL
#define SA_NOCLDWAIT 2UL
#define SA_SIGINFO 4UL
#define SA_ONSTACK 0x08000000UL
#define SA_RESTORER 0x04000000UL
#define SA_RESTART 0x10000000UL
#define SA_NODEFER 0x40000000UL
#define SA_RESETHAND 0x80000000UL

/* The kernel's entry to the runtime, in entry/signal_entry.S. */
void signal_entry(void);

/* What the kernel does with signals without a handler. */
static u32 ignored_by_default(u32 number)
{
	return number == SIGCHLD || number == SIGCONT || number == SIGURG || number == SIGWINCH;
}
static u32 stops_by_default(u32 number)
{
	return number == SIGSTOP || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

static i64 kernel_action(u32 number, u64 handler, u64 flags)
{
	struct signal_action action = {
		handler, flags | SA_RESTORER, (u64)signal_restorer, ~SYNCHRONOUS};
	return sys4(NR_rt_sigaction, number, &action, NULL, 8);
}

/* Makes the kernel's disposition follow the program's. Signals that would kill the program are
 * caught, too, so that the log has the place where it dies. */
void apply_action(u32 number, const struct signal_action *action)
{
	const u64 ours = SA_SIGINFO | SA_ONSTACK;
	if (SIGNAL_BIT(number) & SYNCHRONOUS)
		kernel_action(number, (u64)signal_entry,
			ours | SA_NODEFER | (action->flags & SA_RESTART));
	else if (answers())
		return;
	else if (action->handler == SIG_IGN)
		kernel_action(number, SIG_IGN, 0);
	else if (action->handler == SIG_DFL &&
		 (ignored_by_default(number) || stops_by_default(number) ||
			 is_spared(context_self())))
		kernel_action(number, SIG_DFL, action->flags & (SA_NOCLDSTOP | SA_NOCLDWAIT));
	else
		kernel_action(number, (u64)signal_entry,
			ours | (action->flags & (SA_RESTART | SA_NOCLDSTOP | SA_NOCLDWAIT)));
}

/* Called after exec. Only the kernel knows which signals the program inherited as ignored; the log
 * carries them to replay. */
void signals_install(struct context *context)
{
	u64 stack[3] = {REGIONS + context->region * REGION_STRIDE + REGION_ALTERNATE, 0,
		REGION_ALTERNATE_TOP - REGION_ALTERNATE};
	sys2(NR_sigaltstack, stack, NULL);
	for (u32 number = 1; number <= 64; number++) {
		struct signal_action *action = &context->process->actions[number];
		if (number == SIGKILL || number == SIGSTOP)
			continue;
		if (executes() && number != SIGSYS) {
			sys4(NR_rt_sigaction, number, NULL, action, 8);
			*action = (struct signal_action){
				action->handler == SIG_IGN ? SIG_IGN : SIG_DFL, 0, 0, 0};
		}
		apply_action(number, action);
	}
}

void signals_take_over(struct context *context)
{
	for (u32 number = 1; number <= 64; number++) {
		struct signal_action *action = &context->process->actions[number];
		sys4(NR_rt_sigaction, number, NULL, action, 8);
		if (number != SIGKILL && number != SIGSTOP)
			apply_action(number, action);
	}
}

/* Called when a process in another PID namespace has begun. It or its parent may be the first one
 * there, and the kernel treats that process differently. */
void signals_apply(struct context *context)
{
	for (u32 number = 1; number <= 64; number++)
		if (number != SIGKILL && number != SIGSTOP)
			apply_action(number, &context->process->actions[number]);
}

/* Defers held signals again, once the program unblocks them. The kernel cannot hold these for the
 * program. */
static void release_held(struct context *context, u64 mask)
{
	for (u32 i = 0; i < context->held_count; i++) {
		if (mask & SIGNAL_BIT(context->held[i].info.number))
			continue;
		context->deferred[context->deferred_count++] = context->held[i];
		context->held[i--] = context->held[--context->held_count];
	}
}

void signals_clear(struct context *context)
{
	for (u32 number = 1; number <= 64; number++) {
		struct signal_action *action = &context->process->actions[number];
		if (action->handler <= SIG_IGN)
			continue;
		*action = (struct signal_action){SIG_DFL, 0, 0, 0};
		apply_action(number, action);
	}
}

void set_kernel_mask(struct context *context, u64 mask)
{
	if (UNLIKELY(context->held_count))
		release_held(context, mask);
	context->mask_held = 0;
	if (answers())
		return;
	mask &= ~SYNCHRONOUS;
	sys4(NR_rt_sigprocmask, 2 /* SIG_SETMASK */, &mask, NULL, 8);
}

void hold_signals(struct context *context)
{
	u64 mask = ~SYNCHRONOUS;
	if (answers())
		return;
	context->mask_held = 1;
	sys4(NR_rt_sigprocmask, 2 /* SIG_SETMASK */, &mask, NULL, 8);
}

void hold_all_signals(struct context *context)
{
	u64 mask = ~0UL;
	if (answers())
		return;
	context->mask_held = 1;
	sys4(NR_rt_sigprocmask, 2 /* SIG_SETMASK */, &mask, NULL, 8);
}

/* ---- delivery ---- */

static u64 handler_mask(const struct signal_action *action, u32 number, u64 base)
{
	return base | action->mask | (action->flags & SA_NODEFER ? 0 : SIGNAL_BIT(number));
}

static void enter_handler(
	struct context *context, u32 number, const struct siginfo *info, const struct fault *fault);

/* The stack has no room for a frame. That is a SIGSEGV, whose handler may have another stack. */
static void frame_failed(struct context *context, u32 number, const struct fault *fault)
{
	const struct siginfo info = {.number = SIGSEGV, .code = SI_KERNEL};
	if (number == SIGSEGV || context->process->actions[SIGSEGV].handler <= SIG_IGN ||
		context->sigmask & SIGNAL_BIT(SIGSEGV))
		die_by_signal(context, SIGSEGV);
	enter_handler(context, SIGSEGV, &info, fault);
}

/* Enters the program's handler. The frame goes on the handler's stack, and the registers point to
 * the handler's first instruction. */
static void enter_handler(
	struct context *context, u32 number, const struct siginfo *info, const struct fault *fault)
{
	struct signal_action *action = &context->process->actions[number];
	if (answers())
		debug_event(DEBUG_SIGNAL, number);
	u64 saved = context->sigmask;
	u64 base = context->temporary_active ? context->temporary_mask : context->sigmask;
	context->handler_depth++;
	arm_interception(context);
	if (!push_frame(context, number, info, fault, saved)) {
		context->handler_depth--;
		frame_failed(context, number, fault);
		return;
	}
	context->temporary_active = 0;
	u32 place = context->handler_depth % FRAMES_KNOWN;
	context->frames[place] = context->regs.rsp;
	section_interrupt(context, &context->interrupted[place]);
	context->sigmask =
		handler_mask(action, number, base) & ~(SIGNAL_BIT(SIGKILL) | SIGNAL_BIT(SIGSTOP));
	if (action->flags & SA_RESETHAND) {
		action->handler = SIG_DFL;
		apply_action(number, action);
	}
}

struct signal_body {
	struct siginfo info;
	struct fault fault;
};

static void log_signal(struct context *context, const struct deferred_signal *signal, u8 flags)
{
	struct signal_body body = {signal->info, signal->fault};
	ring_event(context, EVENT_SIGNAL, flags, (u16)signal->info.number, 0, &body, sizeof body);
}

static void log_fatal(struct context *context, const struct deferred_signal *signal, u8 flags)
{
	u64 hash, pages;
	look_end(context);
	final_hash(context, 1, &hash, &pages);
	struct signal_body body = {signal->info, signal->fault};
	ring_event(context, EVENT_FATAL, flags, (u16)signal->info.number, (i64)hash, &body,
		sizeof body);
}

/* Undoes a call that a signal preceded: the program is at its `syscall` instruction again. */
void back_to_call(struct context *context)
{
	context->regs.rax = context->number;
	context->regs.rip -= 2;
}

static u32 blocked_now(struct context *context, u32 number)
{
	u64 mask = context->temporary_active ? context->temporary_mask : context->sigmask;
	return (mask & SIGNAL_BIT(number)) != 0;
}

/* Delivers the signals that the master handler took. Record only. */
u32 deliver_deferred(struct context *context, u32 before_call)
{
	u32 moved = 0;
	if (before_call)
		context->slot->traced.entered_ns = 0; /* the call was not made */
	while (context->deferred_count) {
		struct deferred_signal signal = context->deferred[0];
		context->deferred_count--;
		memmove(&context->deferred[0], &context->deferred[1],
			context->deferred_count * sizeof signal);
		u32 number = (u32)signal.info.number;
		struct signal_action *action = &context->process->actions[number];
		if (blocked_now(context, number) && SIGNAL_BIT(number) & SYNCHRONOUS &&
			context->held_count < MAX_HELD)
			/* The kernel never blocks these for the runtime. */
			context->held[context->held_count++] = signal;
		else if (blocked_now(context, number))
			sys4(NR_rt_tgsigqueueinfo, context->pid, context->tid, number,
				&signal.info);
		else if (action->handler == SIG_DFL && !ignored_by_default(number) &&
			 !is_spared(context)) {
			log_fatal(context, &signal, before_call && !moved ? SIGNAL_BEFORE_CALL : 0);
			memory_left(context);
			die_by_signal(context, number);
		} else if (action->handler > SIG_IGN) {
			if (before_call && !moved)
				back_to_call(context);
			log_signal(
				context, &signal, before_call && !moved ? SIGNAL_BEFORE_CALL : 0);
			moved = 1;
			context->observes = 1; /* observes what the sender did */
			enter_handler(context, number, &signal.info, &signal.fault);
		}
		if (!context->deferred_count) {
			force_settle(context);
			signals_settle(context);
			set_kernel_mask(context, context->sigmask);
		}
	}
	context->temporary_active = 0;
	if (context->mask_held)
		set_kernel_mask(context, context->sigmask);
	if (before_call && !moved) {
		back_to_call(context);
		context->undone = context->sections && domain_of(context);
	}
	return LEAVE_FULL;
}

/* Delivers the signals that the log has here. Replay only. */
u32 replay_signals(struct context *context, u32 before_call)
{
	u32 moved = 0;
	for (;;) {
		const struct event *event = log_peek(context);
		if (!event || event->kind != EVENT_SIGNAL || (event->flags & SIGNAL_FAULT) ||
			((event->flags & SIGNAL_BEFORE_CALL) && !(before_call && !moved)))
			break;
		log_take(context, EVENT_SIGNAL, event->number);
		if (event->size < sizeof *event + sizeof(struct signal_body) || event->number < 1 ||
			event->number > 64)
			diverge(context, WHY_CORRUPT, event->size, 0);
		const struct signal_body *body = (const struct signal_body *)(event + 1);
		if (before_call && !moved)
			back_to_call(context);
		moved = 1;
		if (context->process->actions[event->number].handler <= SIG_IGN)
			diverge(context, WHY_SIGNAL, event->number, 0);
		struct deferred_signal signal = {body->info, body->fault};
		enter_handler(context, event->number, &signal.info, &signal.fault);
	}
	context->temporary_active = 0;
	replay_fatal(context, before_call && !moved);
	watch_next(context);
	return moved ? LEAVE_FULL : LEAVE_FAST;
}

/* As deliver_deferred, for a call that was not made although the log has an event of it. */
u32 replay_undone(struct context *context)
{
	if (replay_signals(context, 1) == LEAVE_FAST) {
		back_to_call(context);
		context->undone = context->sections && domain_of(context);
	}
	return LEAVE_FULL;
}

/* Ends a process that a signal killed between two calls. Its next event is a FATAL event. */
void replay_fatal(struct context *context, u32 before_call)
{
	const struct event *event = log_peek(context);
	if (LIKELY(!event || event->kind != EVENT_FATAL))
		return;
	if (event->flags & SIGNAL_FAULT || (event->flags & SIGNAL_BEFORE_CALL && !before_call))
		return; /* the program runs into it by itself, or only at its next call */
	u64 hash, pages;
	final_hash(context, 1, &hash, &pages);
	if (event->value && hash && (u64)event->value != hash)
		diverge(context, WHY_HASH, (u64)event->value, hash);
	debug_event(DEBUG_DEATH, event->number);
	memory_left(context);
	if (context->process->thread_count > 1)
		end_process(context, event->number);
	die_by_signal(context, event->number);
}

static SELDOM u32 leave_at_random(struct context *context)
{
	u32 is_parallel = runs_in_parallel(context);
	if (!is_parallel)
		baton_leave(context);
	if (context->deferred_count)
		return deliver_deferred(context, 0);
	context->temporary_active = 0;
	return is_parallel ? LEAVE_FAST : force_after(context);
}

/* Every return from a call comes here. */
u32 leave(struct context *context)
{
	if (executes()) {
		if (UNLIKELY(orders_at_random()))
			return leave_at_random(context);
		if (UNLIKELY(context->deferred_count)) {
			call_sees_signals(context);
			return deliver_deferred(context, 0);
		}
		context->temporary_active = 0;
		return LEAVE_FAST;
	}
	if (UNLIKELY(context->caught_call))
		debug_return(context);
	const struct event *event = log_peek(context);
	if (UNLIKELY(event && event->kind == EVENT_TURN)) {
		turn_leave(context);
		event = log_peek(context);
	}
	if (UNLIKELY(event && event->kind == EVENT_AFTER)) {
		call_sees_signals(context);
		event = log_peek(context);
	}
	if (LIKELY(event && event->kind != EVENT_SIGNAL && event->kind != EVENT_FATAL)) {
		context->temporary_active = 0;
		if (UNLIKELY(event->kind == EVENT_FORCED || event->kind == EVENT_END ||
			     event->kind == EVENT_PASSAGE))
			watch_next(context);
		return UNLIKELY(debug_pauses(context)) ? LEAVE_FULL : LEAVE_FAST;
	}
	replay_fatal(context, 0);
	u32 how = replay_signals(context, 0);
	return debug_pauses(context) ? LEAVE_FULL : how;
}

void note_ignored(struct context *context)
{
	u64 ignored = 0;
	for (u32 i = 1; i <= 64; i++)
		if (context->process->actions[i].handler == 1)
			ignored |= SIGNAL_BIT(i);
	context->slot->carried.ignored_signals = ignored;
}

/* Delivers a signal that the program caused itself. It occurs at this place in record and in
 * replay. `certain`: it kills even if there is a handler. */
void raise_fault(struct context *context, const struct deferred_signal *raised, u32 certain)
{
	struct deferred_signal signal = *raised;
	u32 number = (u32)signal.info.number;
	u64 handler = context->process->actions[number].handler;
	u32 fatal = certain || handler <= SIG_IGN || (context->sigmask & SIGNAL_BIT(number));
	if (executes()) {
		if (fatal)
			log_fatal(context, &signal, SIGNAL_FAULT);
		else
			log_signal(context, &signal, SIGNAL_FAULT);
	} else {
		const struct event *event = log_peek(context);
		u8 kind = fatal ? EVENT_FATAL : EVENT_SIGNAL;
		if (!event || event->kind != kind || event->number != number ||
			event->size < sizeof *event + sizeof(struct signal_body))
			diverge(context, WHY_FAULT, event ? event->kind : 0, number);
		const struct signal_body *body = (const struct signal_body *)(event + 1);
		if (body->info.fields[0] != signal.info.fields[0] ||
			body->info.code != signal.info.code)
			diverge(context, WHY_FAULT, body->info.fields[0], signal.info.fields[0]);
		signal = (struct deferred_signal){body->info, body->fault};
		if (fatal)
			debug_event(DEBUG_DEATH, number);
		else
			log_take(context, kind, (u16)number);
	}
	if (fatal) {
		process_ends(context, number);
		if (number == SIGTRAP || number == SIGSYS || number == SIGKILL ||
			context->fault_made)
			/* No instruction of the program would raise it again. */
			die_by_signal(context, number);
		kernel_action(number, SIG_DFL, 0);
		return; /* the instruction faults again, natively: right status, right core */
	}
	enter_handler(context, number, &signal.info, &signal.fault);
	set_kernel_mask(context, context->sigmask);
	if (answers())
		watch_next(context);
}
