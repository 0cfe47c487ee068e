/* The master handler: the kernel sends it every signal. It handles faults of the program's
 * instructions at once, and defers all other signals to the next sync point.
 *
 * Context: master_handler runs on the region's alternate stack with all but the synchronous signals
 * blocked. It never touches the program's memory, except the instruction bytes at a fault. */
#include "base/futex.h"
#include "base/leave.h"
#include "base/signals.h"
#include "base/state.h"
#include "base/text.h"
#include "base/unreached.h"
#include "base/user.h"
#include "entry/entry.h"
#include "entry/stepped.h"
#include "mode/window.h"
#include "order/baton.h"
#include "order/forcing.h"
#include "place/forced.h"
#include "place/instruction.h"
#include "place/trapped.h"
#include "place/watch.h"
#include "signals/behind.h"
#include "signals/frame.h"

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

/* The address where a thread goes on that is about to make a call, when a signal must come first;
 * NULL: the thread is not about to make a call. */
static const char *window_around(u64 rip)
{
	if (rip >= (u64)plain_window_start && rip <= (u64)plain_window_call)
		return plain_window_abort;
	if (rip >= (u64)other_window_start && rip <= (u64)other_window_call)
		return other_window_abort;
	return rip >= (u64)window_start && rip <= (u64)window_call ? window_abort : NULL;
}

/* Handles a call from an unpatched place. */
static void dispatched_call(struct context *context, struct registers *regs, u64 after)
{
	context->slot->slow_calls++;
	regs->rcx = after;
	if (regs->eflags & FLAG_TRAP) {
		regs->rip = after;
		regs->r11 = regs->eflags;
		enter_saved(context, regs, entry_syscall_saved);
	} else
		regs->rip = (u64)entry_syscall;
}

/* Returns whether the program has set the trap flag. */
static u32 steps(const struct registers *regs) { return (regs->eflags & FLAG_TRAP) != 0; }

enum emulated { NOT_EMULATED, EMULATED, EMULATED_CALL, EMULATED_REFUSAL };

#define ILL_ILLOPN 2
#define INVALID_OPCODE 6 /* exceptions of the processor */
#define GENERAL_PROTECTION 13

/* Replaces a fault by the one that the program must see. */
static void replace_fault(struct context *context, struct siginfo *info, struct fault *fault,
	struct siginfo fresh, u64 trap)
{
	context->fault_made = 1;
	*info = fresh;
	*fault = (struct fault){.error_code = 0, .trap_number = trap, .address = 0};
}

static enum emulated emulate_trapped_at(
	struct context *context, struct registers *regs, struct siginfo *info, struct fault *fault)
{
	struct trapped trapped = trapped_at(regs->rip);
	if (trapped.kind == TRAPPED_NONE)
		return NOT_EMULATED;
	if (trapped.kind == TRAPPED_BASE) {
		/* As on a processor without the instruction. */
		replace_fault(context, info, fault,
			(struct siginfo){
				.number = SIGILL, .code = ILL_ILLOPN, .fields = {regs->rip}},
			INVALID_OPCODE);
		return EMULATED_REFUSAL;
	}
	emulate_trapped(context, regs, &trapped);
	return EMULATED;
}

static enum emulated emulate_instruction(struct context *context, struct registers *regs)
{
	u8 code[3] = {0};
	memcpy(code, (const void *)regs->rip, 2); /* readable, as it was just executed */
	/* The patcher replaces every such instruction, so that the processor need not trap it. */
	u32 is_trap = code[0] == 0xcd;
	if ((code[0] == 0x0f || is_trap) && code[1] == 0x31) {
		emulate_tsc(context, regs, 0);
		regs->rip += 2;
		return EMULATED;
	}
	if (is_trap && code[1] == 0x05) { /* `syscall` */
		dispatched_call(context, regs, regs->rip + 2);
		return EMULATED_CALL;
	}
	if ((code[0] == 0x0f || is_trap) && code[1] == 0xa2) { /* CPUID */
		emulate_cpuid(regs);
		regs->rip += 2;
		return EMULATED;
	}
	if ((is_trap && code[1] == 0xf9) ||
		(code[0] == 0x0f && code[1] == 0x01 && *(const u8 *)(regs->rip + 2) == 0xf9)) {
		emulate_tsc(context, regs, 1);
		regs->rip += 3;
		return EMULATED;
	}
	return NOT_EMULATED;
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

#define ARCHITECTURE_I386 0x40000003UL
#define GATE_ERROR (8 * 0x80 + 2)
#define INSTRUCTION_FETCH 0x10 /* in the error code of a page fault */

/* The program wrote an address without code into a signal frame, and is about to go on there. */
static void refuse_place(struct context *context, struct siginfo *info, struct registers *regs)
{
	struct deferred_signal *raised = &context->deferred[MAX_DEFERRED - 1];
	replace_fault(context, info, &raised->fault,
		(struct siginfo){.number = SIGSEGV, .code = SI_KERNEL}, GENERAL_PROTECTION);
	raised->info = *info;
	struct registers own = context->regs;
	enter_saved(context, regs, fault_entry);
	context->regs = own;
}

static void synchronous_fault(
	struct context *context, struct siginfo *info, struct user_context *user)
{
	struct machine_context *machine = &user->machine;
	struct fault fault = {machine->error_code, machine->trap_number, machine->fault_address};
	context->fault_made = 0;
	if (own_step(context, info, &machine->regs))
		return;
	if (machine->regs.rip == (u64)restore_jump ||
		machine->regs.rip == (u64)restore_stepping_end) {
		refuse_place(context, info, &machine->regs);
		return;
	}
	if (in_text(machine->regs.rip)) {
		const char *fixup = fixup_of(machine->regs.rip);
		if (!fixup)
			fail("a fault in the runtime itself");
		machine->regs.rip = (u64)fixup;
		return;
	}
	if (info->number == SIGSEGV && machine->error_code & INSTRUCTION_FETCH &&
		unreached_holds(context->process, machine->fault_address)) {
		unreached_show(context);
		return;
	}
	if (info->number == SIGSEGV && info->code == SI_KERNEL) {
		enum emulated how = emulate_instruction(context, &machine->regs);
		if (how == NOT_EMULATED)
			how = emulate_trapped_at(context, &machine->regs, info, &fault);
		if (how == EMULATED_CALL || (how == EMULATED && !steps(&machine->regs)))
			return;
		if (how == EMULATED)
			step_emulated(info, &fault, machine->regs.rip);
	}
	context->deferred[MAX_DEFERRED - 1].info = *info;
	context->deferred[MAX_DEFERRED - 1].fault = fault;
	enter_saved(context, &machine->regs, fault_entry);
}

/* `int $0x80` makes a call of a 32-bit program. It faults, as in a kernel without such programs. */
static void refuse_gate(struct context *context, struct siginfo *info, struct registers *regs)
{
	struct deferred_signal *raised = &context->deferred[MAX_DEFERRED - 1];
	if (executes() && !__atomic_exchange_n(&HEADER->gate_told, 1, __ATOMIC_RELAXED))
		complain("int $0x80 is not supported: it faults, as on a 64-bit-only kernel");
	regs->rip -= 2;
	replace_fault(context, info, &raised->fault,
		(struct siginfo){.number = SIGSEGV, .code = SI_KERNEL}, GENERAL_PROTECTION);
	raised->fault.error_code = GATE_ERROR;
	raised->info = *info;
	enter_saved(context, regs, fault_entry);
}

static u32 is_synchronous(const struct siginfo *info)
{
	return (SIGNAL_BIT(info->number) & SYNCHRONOUS) && info->code > 0 && info->number != SIGSYS;
}

static void enter_stopped(struct context *context, struct registers *regs)
{
	regs->eflags &= ~(u64)FLAG_RESUME;
	enter_saved(context, regs, force_entry);
}

void master_handler(i32 number, struct siginfo *info, struct user_context *user);
void master_handler(i32 number, struct siginfo *info, struct user_context *user)
{
	struct context *context = context_self();
	struct registers *regs = &user->machine.regs;
	if (regs->rip >= (u64)restore_stepping && regs->rip <= (u64)restore_stepping_end &&
		!is_synchronous(info))
		regs->rip = (u64)restore_full; /* the code below may change the flags */
	enum handled how = executes() ? forced_handler(context, info, regs, user->machine.extended)
				      : watch_handler(context, info, regs, user->machine.extended);
	if (how != NOT_HANDLED) {
		if (how == HANDLED_STOP)
			enter_stopped(context, regs);
		return;
	}
	if (number == SIGSYS && info->code == 2 /* SYS_USER_DISPATCH */) {
		if (info->fields[1] >> 32 == ARCHITECTURE_I386)
			refuse_gate(context, info, regs);
		else
			dispatched_call(context, regs, regs->rip);
		return;
	}
	if (is_synchronous(info)) {
		synchronous_fault(context, info, user);
		return;
	}
	defer(context, info, NULL);
	signals_want(context);
	force_want(context, in_text(regs->rip) || context->in_clock);
	baton_signalled(context);
	user->mask = ~SYNCHRONOUS;
	context->mask_held = 1;
	const char *abort = window_around(regs->rip);
	if (abort)
		regs->rip = (u64)abort;
	else if (traces() && forced_deliver(context, regs) == HANDLED_STOP)
		enter_stopped(context, regs);
}
