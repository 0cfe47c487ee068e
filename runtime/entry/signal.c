/* Signals: one master handler takes them all; they are delivered to the program at sync points
 * only, by frames of our own making, so that record and replay build the same frame at the same
 * program state.
 *
 * Context: master_handler runs on the region's alternate stack with every signal but the
 * synchronous ones blocked. It never touches the program's memory, except the instruction bytes at
 * a fault. Everything else runs on the private stack. */
#include "entry/signal.h"
#include "base/futex.h"
#include "base/state.h"
#include "base/sys.h"
#include "calls/exit.h"
#include "calls/interception.h"
#include "calls/namespace.h"
#include "calls/robust.h"
#include "calls/unreached.h"
#include "entry/entry.h"
#include "entry/frame.h"
#include "gen/numbers.h"
#include "log/hash.h"
#include "log/log.h"
#include "log/ring.h"
#include "mode/debug.h"
#include "mode/look.h"
#include "order/baton.h"
#include "order/chaos.h"
#include "order/section.h"
#include "order/turn.h"
#include "place/forced.h"
#include "place/instruction.h"
#include "place/watch.h"

enum { SIG_DFL = 0, SIG_IGN = 1 };
#define SA_NOCLDSTOP 1UL
#define SA_NOCLDWAIT 2UL
#define SA_SIGINFO 4UL
#define SA_ONSTACK 0x08000000UL
#define SA_RESTORER 0x04000000UL
#define SA_RESTART 0x10000000UL
#define SA_NODEFER 0x40000000UL
#define SA_RESETHAND 0x80000000UL

struct machine_context {
	struct registers regs;
	u16 cs, gs, fs, ss;
	u64 error_code, trap_number, old_mask, fault_address, extended, reserved[8];
};
struct user_context {
	u64 flags, link, stack_pointer;
	u32 stack_flags, padding;
	u64 stack_bytes;
	struct machine_context machine;
	u64 mask;
};

/* What the kernel does by itself with a signal that has no handler. */
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

/* Makes the kernel's disposition follow the program's. Signals that would kill are caught too, so
 * that the log says where it died. */
void apply_action(u32 number, const struct signal_action *action)
{
	const u64 ours = SA_SIGINFO | SA_ONSTACK;
	if (SIGNAL_BIT(number) & SYNCHRONOUS)
		kernel_action(number, (u64)signal_entry,
			ours | SA_NODEFER | (action->flags & SA_RESTART));
	else if (!recording())
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

/* After exec: which signals the program inherited as ignored only the kernel knows; the log carries
 * it to replay. */
void signals_install(struct context *context)
{
	u64 stack[3] = {REGIONS + context->region * REGION_STRIDE + REGION_ALTERNATE, 0,
		REGION_ALTERNATE_TOP - REGION_ALTERNATE};
	sys2(NR_sigaltstack, stack, NULL);
	for (u32 number = 1; number <= 64; number++) {
		struct signal_action *action = &context->process->actions[number];
		if (number == SIGKILL || number == SIGSTOP)
			continue;
		if (recording() && number != SIGSYS) {
			sys4(NR_rt_sigaction, number, NULL, action, 8);
			*action = (struct signal_action){
				action->handler == SIG_IGN ? SIG_IGN : SIG_DFL, 0, 0, 0};
		}
		apply_action(number, action);
	}
}

/* A process in another PID namespace has begun: it or its parent may be the first one there, and
 * the kernel treats that in its own way. */
void signals_apply(struct context *context)
{
	for (u32 number = 1; number <= 64; number++)
		if (number != SIGKILL && number != SIGSTOP)
			apply_action(number, &context->process->actions[number]);
}

/* Signals that the kernel cannot hold for the program come back once it unblocks them. */
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
	if (!recording())
		return;
	mask &= ~SYNCHRONOUS;
	sys4(NR_rt_sigprocmask, 2 /* SIG_SETMASK */, &mask, NULL, 8);
}

void hold_signals(struct context *context)
{
	u64 mask = ~SYNCHRONOUS;
	if (!recording())
		return;
	context->mask_held = 1;
	sys4(NR_rt_sigprocmask, 2 /* SIG_SETMASK */, &mask, NULL, 8);
}

/* ---- the master handler ---- */

static u32 in_text(u64 address)
{
	return address >= RUNTIME_TEXT && address < (u64)runtime_text_end;
}

static const char *fixup_of(u64 rip)
{
	if (rip >= (u64)copy_user_start && rip < (u64)copy_user_end)
		return copy_user_fixup;
	if (rip >= (u64)string_user_start && rip < (u64)string_user_end)
		return string_user_fixup;
	if (rip >= (u64)hash_user_start && rip < (u64)hash_user_end)
		return hash_user_fixup;
	if (rip == (u64)extended_restore_at)
		return extended_restore_fixup;
	return NULL;
}

/* Where a thread goes on that is about to make a call which a signal must come before; NULL: it is
 * not. */
static const char *window_around(u64 rip)
{
	if (rip >= (u64)plain_window_start && rip <= (u64)plain_window_call)
		return plain_window_abort;
	if (rip >= (u64)other_window_start && rip <= (u64)other_window_call)
		return other_window_abort;
	return rip >= (u64)window_start && rip <= (u64)window_call ? window_abort : NULL;
}

/* A call at a place that is not patched. */
static void dispatched_call(struct context *context, struct registers *regs, u64 after)
{
	context->slot->slow_calls++;
	regs->rcx = after;
	regs->rip = (u64)entry_syscall;
}

static u32 emulate_instruction(struct context *context, struct registers *regs)
{
	u8 code[3] = {0};
	memcpy(code, (const void *)regs->rip, 2); /* it was just executed: it can be read */
	/* What the patcher puts in the place of every such instruction, so that the processor need
	 * not trap it. */
	u32 is_trap = code[0] == 0xcd;
	if ((code[0] == 0x0f || is_trap) && code[1] == 0x31) {
		emulate_tsc(context, regs, 0);
		regs->rip += 2;
		return 1;
	}
	if (is_trap && code[1] == 0x05) { /* a `syscall` */
		dispatched_call(context, regs, regs->rip + 2);
		return 1;
	}
	if ((code[0] == 0x0f || is_trap) && code[1] == 0xa2) { /* CPUID */
		emulate_cpuid(regs);
		regs->rip += 2;
		return 1;
	}
	if ((is_trap && code[1] == 0xf9) ||
		(code[0] == 0x0f && code[1] == 0x01 && *(const u8 *)(regs->rip + 2) == 0xf9)) {
		emulate_tsc(context, regs, 1);
		regs->rip += 3;
		return 1;
	}
	return 0;
}

static void defer(
	struct context *context, const struct siginfo *info, const struct machine_context *machine)
{
	if (context->deferred_count >= MAX_DEFERRED)
		fail("too many signals at once");
	struct deferred_signal *slot = &context->deferred[context->deferred_count];
	slot->info = *info;
	slot->fault = (struct fault){0, 0, 0};
	if (machine)
		slot->fault = (struct fault){
			machine->error_code, machine->trap_number, machine->fault_address};
	context->deferred_count++;
}

#define INSTRUCTION_FETCH 0x10 /* in the error code of a page fault */

static void synchronous_fault(
	struct context *context, const struct siginfo *info, struct user_context *user)
{
	struct machine_context *machine = &user->machine;
	if (in_text(machine->regs.rip)) {
		const char *fixup = fixup_of(machine->regs.rip);
		if (!fixup)
			fail("a fault in the runtime itself");
		machine->regs.rip = (u64)fixup;
		return;
	}
	if (info->number == SIGSEGV && machine->error_code & INSTRUCTION_FETCH && recording() &&
		unreached_holds(context->process, machine->fault_address)) {
		unreached_show(context);
		return;
	}
	if (info->number == SIGSEGV && info->code == 0x80 &&
		emulate_instruction(context, &machine->regs))
		return;
	context->regs = machine->regs;
	context->deferred[MAX_DEFERRED - 1].info = *info;
	context->deferred[MAX_DEFERRED - 1].fault =
		(struct fault){machine->error_code, machine->trap_number, machine->fault_address};
	machine->regs.rip = (u64)fault_entry;
	machine->regs.rsp = context->stack_top;
	machine->regs.eflags &= ~0x500UL; /* direction and trap flag */
}

static u32 is_synchronous(const struct siginfo *info)
{
	return (SIGNAL_BIT(info->number) & SYNCHRONOUS) && info->code > 0 && info->number != SIGSYS;
}

void master_handler(i32 number, struct siginfo *info, struct user_context *user);
void master_handler(i32 number, struct siginfo *info, struct user_context *user)
{
	struct context *context = context_self();
	struct registers *regs = &user->machine.regs;
	if (forced_handler(context, info, regs, user->machine.extended))
		return;
	if (number == SIGSYS && info->code == 2 /* SYS_USER_DISPATCH */) {
		dispatched_call(context, regs, regs->rip);
		return;
	}
	if (is_synchronous(info)) {
		synchronous_fault(context, info, user);
		return;
	}
	defer(context, info, NULL);
	force_want(context, in_text(regs->rip) || context->in_clock);
	baton_signalled(context);
	user->mask = ~SYNCHRONOUS;
	context->mask_held = 1;
	const char *abort = window_around(regs->rip);
	if (abort)
		regs->rip = (u64)abort;
	else if (tracing())
		forced_deliver(context, regs);
}

/* ---- delivery ---- */

static u64 handler_mask(const struct signal_action *action, u32 number, u64 base)
{
	return base | action->mask | (action->flags & SA_NODEFER ? 0 : SIGNAL_BIT(number));
}

/* Enters the program's handler: the frame goes on its stack, the registers to the handler's first
 * instruction. */
static void enter_handler(
	struct context *context, u32 number, const struct siginfo *info, const struct fault *fault)
{
	struct signal_action *action = &context->process->actions[number];
	if (!recording())
		debug_event(DEBUG_SIGNAL, number);
	u64 saved = context->sigmask;
	u64 base = context->temporary_active ? context->temporary_mask : context->sigmask;
	context->temporary_active = 0;
	context->handler_depth++;
	arm_interception(context);
	if (!push_frame(context, number, info, fault, saved))
		die_by_signal(context, SIGSEGV);
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
	if (tracing())
		look_end(context);
	final_hash(context, &hash, &pages);
	struct signal_body body = {signal->info, signal->fault};
	if (recording())
		ring_event(context, EVENT_FATAL, flags, (u16)signal->info.number, (i64)hash, &body,
			sizeof body);
}

/* A call undone by a signal before it: the program stands at its `syscall` instruction again. */
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

/* Delivers what the master handler took. Record only. */
u32 deliver_deferred(struct context *context, u32 before_call)
{
	u32 moved = 0;
	if (before_call)
		context->slot->traced.entered_ns = 0; /* it was not made */
	while (context->deferred_count) {
		struct deferred_signal signal = context->deferred[0];
		context->deferred_count--;
		memmove(&context->deferred[0], &context->deferred[1],
			context->deferred_count * sizeof signal);
		u32 number = (u32)signal.info.number;
		struct signal_action *action = &context->process->actions[number];
		if (blocked_now(context, number) && SIGNAL_BIT(number) & SYNCHRONOUS &&
			context->held_count < MAX_HELD)
			/* The kernel never blocks these for us. */
			context->held[context->held_count++] = signal;
		else if (blocked_now(context, number))
			sys4(NR_rt_tgsigqueueinfo, context->pid, context->tid, number,
				&signal.info);
		else if (action->handler == SIG_DFL && !ignored_by_default(number) &&
			 !is_spared(context)) {
			log_fatal(context, &signal, before_call && !moved ? SIGNAL_BEFORE_CALL : 0);
			robust_release(context);
			die_by_signal(context, number);
		} else if (action->handler > SIG_IGN) {
			if (before_call && !moved)
				back_to_call(context);
			log_signal(
				context, &signal, before_call && !moved ? SIGNAL_BEFORE_CALL : 0);
			moved = 1;
			enter_handler(context, number, &signal.info, &signal.fault);
		}
		if (!context->deferred_count) {
			force_settle(context);
			set_kernel_mask(context, context->sigmask);
		}
	}
	context->temporary_active = 0;
	if (context->mask_held)
		set_kernel_mask(context, context->sigmask);
	if (before_call && !moved)
		back_to_call(context);
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

/* As deliver_deferred for a call that was not made although the log has an event of it. */
u32 replay_undone(struct context *context)
{
	if (replay_signals(context, 1) == LEAVE_FAST)
		back_to_call(context);
	return LEAVE_FULL;
}

/* A process that a signal killed between two calls: its log has a FATAL event next. */
void replay_fatal(struct context *context, u32 before_call)
{
	const struct event *event = log_peek(context);
	if (LIKELY(!event || event->kind != EVENT_FATAL))
		return;
	if (event->flags & SIGNAL_FAULT || (event->flags & SIGNAL_BEFORE_CALL && !before_call))
		return; /* the program will run into it by itself, or only at its next call */
	u64 hash, pages;
	final_hash(context, &hash, &pages);
	if (event->value && hash && (u64)event->value != hash)
		diverge(context, WHY_HASH, (u64)event->value, hash);
	debug_event(DEBUG_DEATH, event->number);
	robust_release(context);
	if (context->process->thread_count > 1)
		end_process(context, event->number);
	die_by_signal(context, event->number);
}

/* Every way out of a call passes here. */
u32 leave(struct context *context)
{
	if (recording()) {
		if (UNLIKELY(chaos()))
			baton_leave(context);
		if (LIKELY(!context->deferred_count)) {
			context->temporary_active = 0;
			return UNLIKELY(chaos()) ? force_after(context) : LEAVE_FAST;
		}
		return deliver_deferred(context, 0);
	}
	if (UNLIKELY(context->caught_call))
		debug_return(context);
	const struct event *event = log_peek(context);
	if (UNLIKELY(event && event->kind == EVENT_TURN)) {
		turn_leave(context);
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

/* Dies as the program would have, without a handler and at once; the parent sees the right status.
 */
void die_by_signal(struct context *context, u32 number)
{
	u64 mask = ~SIGNAL_BIT(number);
	if (!recording())
		debug_event(DEBUG_DEATH, number);
	context->exiting = 1;
	mark_siblings_dying(context);
	baton_end_process(context);
	slot_exited(context);
	kernel_action(number, SIG_DFL, 0);
	sys4(NR_rt_sigprocmask, 2, &mask, NULL, 8);
	sys3(NR_tgkill, sys0(NR_getpid), sys0(NR_gettid), number);
	for (;;)
		sys1(NR_exit_group, 128 + number);
}

/* The program faulted: its handler runs now, or it dies at the faulting instruction. */
void runtime_fault(struct context *context)
{
	struct deferred_signal signal = context->deferred[MAX_DEFERRED - 1];
	section_note(context);
	raise_fault(context, &signal, 0);
	section_leave(context);
}

/* A signal that the program brought upon itself: it comes at this place by itself, in record and in
 * replay. `certain`: no handler helps. */
void raise_fault(struct context *context, const struct deferred_signal *raised, u32 certain)
{
	struct deferred_signal signal = *raised;
	u32 number = (u32)signal.info.number;
	u64 handler = context->process->actions[number].handler;
	u32 fatal = certain || handler <= SIG_IGN || (context->sigmask & SIGNAL_BIT(number));
	if (recording()) {
		if (!fatal)
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
		if (!fatal)
			log_take(context, kind, (u16)number);
	}
	if (fatal) {
		if (recording())
			log_fatal(context, &signal, SIGNAL_FAULT);
		else
			debug_event(DEBUG_DEATH, number);
		robust_release(context);
		if (!recording() && context->process->thread_count > 1)
			end_process(context, number);
		mark_siblings_dying(context);
		baton_end_process(context);
		slot_exited(context);
		if (number == SIGTRAP || number == SIGSYS || number == SIGKILL)
			/* No instruction of the program's would raise it again. */
			die_by_signal(context, number);
		kernel_action(number, SIG_DFL, 0);
		return; /* the instruction faults again, natively: right status, right core */
	}
	enter_handler(context, number, &signal.info, &signal.fault);
	set_kernel_mask(context, context->sigmask);
	if (!recording())
		watch_next(context);
}
