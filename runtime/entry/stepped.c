/* A program that single-steps itself: it has set the trap flag, and each of its instructions ends
 * in a SIGTRAP. It sees the steps of its own instructions, as natively, but none of the runtime or
 * of stubs. The runtime itself runs without the flag, and sets it again on the way out.
 *
 * A call from a stub is one instruction, too: before it, the program is moved to the place of the
 * call, at the trap there. Other instructions that were displaced into a stub do not count as
 * steps.
 *
 * Context: the master handler. */
#include "entry/stepped.h"
#include "base/state.h"
#include "base/user.h"
#include "entry/entry.h"
#include "place/instruction.h"
#include "place/stepping.h"
#include "signals/signal.h"

#define CALL_BYTES 2
#define LEA_BYTES 7
#define STUB_BYTES 96
#define DEBUG_EXCEPTION 1 /* its number */

void enter_saved(struct context *context, struct registers *regs, void (*saved)(void))
{
	context->regs = *regs;
	regs->rip = (u64)saved;
	regs->rsp = context->stack_top;
	regs->eflags &= ~(u64)FLAG_ODD;
}

/* The code `lea BEHIND(%rip),%rcx; jmp *ENTRY(%rip)`, by which a stub enters the runtime. */
struct __attribute__((packed)) way_in {
	u8 lea[3];
	i32 behind;
	u8 jump[2];
	i32 entry;
};

/* The offset of an entry from the runtime's beginning; -1: the code does not enter the runtime. */
static u64 leads_to(const struct way_in *code, u64 at)
{
	u64 entry, literal = at + sizeof *code + (u64)(i64)code->entry;
	if (code->lea[0] != 0x48 || code->lea[1] != 0x8d || code->lea[2] != 0x0d ||
		code->jump[0] != 0xff || code->jump[1] != 0x25 ||
		copy_user(&entry, (const void *)literal, sizeof entry) ||
		entry - RUNTIME_TEXT > ENTRY_BINDING)
		return ~0UL;
	return entry - RUNTIME_TEXT;
}

/* Returns 1 if the thread is in a stub, shortly before it enters the runtime. Replay does not know
 * in any other way where stubs are. `call`: the address of the call in the program's text, if its
 * stub has nothing left to do before it; else 0. */
static u32 in_stub(u64 rip, u64 *call)
{
	u8 code[STUB_BYTES + sizeof(struct way_in)];
	u64 readable = sizeof code;
	*call = 0;
	if (copy_user(code, (const void *)rip, readable)) {
		readable = minimum(readable, PAGE_CEIL(rip + 1) - rip);
		if (copy_user(code, (const void *)rip, readable))
			return 0;
	}
	for (u64 at = 0; at + sizeof(struct way_in) <= readable; at++) {
		const struct way_in *way = (const struct way_in *)(code + at);
		u64 entry = leads_to(way, rip + at), next = rip + at + LEA_BYTES;
		if (entry == ENTRY_SYSCALL && !at)
			*call = next + (u64)(i64)way->behind - CALL_BYTES;
		if (entry != ~0UL)
			return 1;
	}
	return 0;
}

/* Handles a step at an entry, to which a stub has jumped. Returns 1 if the program must not see the
 * step. */
static u32 step_at_entry(struct context *context, struct registers *regs)
{
	u64 entry = regs->rip - RUNTIME_TEXT;
	regs->rip = regs->rcx;
	if (entry == ENTRY_SYSCALL) {
		regs->r11 = regs->eflags;
		enter_saved(context, regs, entry_syscall_saved);
		return 1;
	}
	regs->rcx = context->scratch;
	if (entry == ENTRY_TSC || entry == ENTRY_TSCP) {
		emulate_tsc(context, regs, entry == ENTRY_TSCP);
		return 0;
	}
	if (entry == ENTRY_CPUID) {
		emulate_cpuid(regs);
		return 0;
	}
	void (*saved)(void) = entry == ENTRY_SECTION_BEGIN     ? section_begin_saved
			      : entry == ENTRY_SECTION_END     ? section_end_saved
			      : entry == ENTRY_COMPARE_BEGIN   ? compare_begin_whole_saved
			      : entry == ENTRY_COMPARE_END     ? compare_end_whole_saved
			      : entry == ENTRY_OBJECT_BEGIN    ? object_begin_entry_saved
			      : entry == ENTRY_CONDITION_BEGIN ? condition_begin_entry_saved
			      : entry == ENTRY_BINDING	       ? entry_binding_saved
							       : entry_passage_saved;
	if (context->sections || entry == ENTRY_PASSAGE)
		enter_saved(context, regs, saved);
	return 1;
}

u32 own_step(struct context *context, struct siginfo *info, struct registers *regs)
{
	u64 call;
	if (info->number != SIGTRAP || info->code != TRAP_TRACE)
		return 0;
	if (regs->rip >= RUNTIME_TEXT && regs->rip < RUNTIME_END) {
		if (step_at_entry(context, regs))
			return 1;
	} else if (in_stub(regs->rip, &call)) {
		if (!call)
			return 1;
		regs->rip = call;
	}
	info->fields[0] = regs->rip;
	return 0;
}

void step_emulated(struct siginfo *info, struct fault *fault, u64 rip)
{
	memset(info, 0, sizeof *info);
	info->number = SIGTRAP;
	info->code = TRAP_TRACE;
	info->fields[0] = rip;
	*fault = (struct fault){.error_code = 0, .trap_number = DEBUG_EXCEPTION, .address = 0};
}
