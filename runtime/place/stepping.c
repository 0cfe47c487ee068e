/* While recording: brings a thread that is about to be stopped over the program's instructions. It
 * runs a copy of them in a scratch page with a trap behind it, computes the target of a branch, or
 * takes a single step. In the master handler, on the alternate stack. */
#include "place/stepping.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "place/displaced.h"
#include "place/forced.h"

#define RUN_BYTES (64 + MOST_INSTRUCTION_BYTES)
#define RETURN 0xc3

u64 scratch_page(const struct context *context)
{
	return FORCE_PLACES + context->region * FORCE_STRIDE;
}

u32 repeated_string(u64 rip)
{
	u8 code[8];
	u32 length = 0, repeated = 0;
	if (copy_user(code, (const void *)rip, sizeof code))
		return 0;
	while (length < 6) {
		u8 byte = code[length++];
		if (byte == 0xf2 || byte == 0xf3)
			repeated = 1;
		else if ((byte >= 0xa4 && byte <= 0xa7) || (byte >= 0xaa && byte <= 0xaf))
			return repeated ? length : 0;
		else if (byte != 0x66 && (byte & 0xf0) != 0x40)
			return 0;
	}
	return 0;
}

u32 pushes_flags(u64 rip)
{
	u8 code[2];
	if (copy_user(code, (const void *)rip, 2))
		return 0;
	if (code[0] == 0x9c)
		return 8;
	return code[1] != 0x9c ? 0 : code[0] == 0x66 ? 2 : (code[0] & 0xf0) == 0x40 ? 8 : 0;
}

void clear_pushed_trap_flag(u64 rsp, u32 bytes)
{
	u64 flags = 0;
	if (!bytes || copy_user(&flags, (const void *)rsp, bytes))
		return;
	flags &= ~FLAG_TRAP;
	copy_user((void *)rsp, &flags, bytes);
}

/* Runs instructions in the scratch page, with a trap behind them. Of several instructions, all but
 * the first touch registers only. */
static void run_apart(struct context *context, struct registers *regs, u32 length)
{
	struct force *force = &context->force;
	u64 page = scratch_page(context);
	if (!force->apart)
		sys3(NR_mprotect, page, PAGE_BYTES, PROT_READ | PROT_WRITE);
	copy_user((void *)page, (const void *)regs->rip, length);
	*(u8 *)(page + length) = 0xcc;
	if (!force->apart)
		sys3(NR_mprotect, page, PAGE_BYTES, PROT_READ | PROT_EXEC);
	force->finishing = 1;
	force->finish_at = regs->rip;
	force->finish_next = regs->rip + length;
	force->finish_trap = page + length + 1;
	regs->rip = page;
	regs->eflags &= ~FLAG_TRAP;
}

/* The size of the instruction and of those behind it that touch no memory, at which a trace would
 * learn nothing. 0: the instruction must be stepped. */
static u32 run_bytes(const struct force *force, const u8 *code, u32 readable)
{
	u32 length = displaced_length(code), more = length;
	while (force->stage == FORCE_TRACE && !force->stop_after && more &&
		length + MOST_INSTRUCTION_BYTES <= readable) {
		more = displaced_in_registers(code + length);
		length += more;
	}
	return length;
}

/* Returns 1 if the instruction is a branch. The thread then stands at its target. */
static u32 follow(struct registers *regs, const u8 *code)
{
	u64 next = displaced_branch(code, regs->rip, regs->eflags),
	    after = regs->rip + NEAR_CALL_BYTES;
	if (code[0] == RETURN) {
		if (copy_user(&next, (const void *)regs->rsp, 8))
			return 0;
		regs->rsp += 8;
	} else if (code[0] == NEAR_CALL) {
		if (copy_user((void *)(regs->rsp - 8), &after, 8))
			return 0;
		regs->rsp -= 8;
	} else if (!next)
		return 0;
	regs->rip = next;
	return 1;
}

/* The rest of a repeated string instruction runs at once, as steps would stop after each
 * repetition. */
u32 bring_over(struct context *context, struct registers *regs)
{
	u8 code[RUN_BYTES + 1] = {0};
	u32 length = repeated_string(regs->rip), readable = RUN_BYTES;
	regs->eflags &= ~FLAG_RESUME;
	if (!length && context->force.apart) {
		if (copy_user(code, (const void *)regs->rip, readable))
			readable = copy_user(code, (const void *)regs->rip, MOST_INSTRUCTION_BYTES)
					   ? 0
					   : MOST_INSTRUCTION_BYTES;
		if (readable && follow(regs, code))
			return 1;
		length = readable ? run_bytes(&context->force, code, readable) : 0;
	}
	if (length) {
		run_apart(context, regs, length);
		return 0;
	}
	context->force.after_pushf = pushes_flags(regs->rip);
	regs->eflags |= FLAG_TRAP;
	return 0;
}

u64 place_in_program(const struct context *context, u64 address)
{
	const struct force *force = &context->force;
	u64 page = scratch_page(context);
	if (!force->finishing || address - page >= PAGE_BYTES)
		return address;
	return address >= force->finish_trap - 1 ? force->finish_next
						 : force->finish_at + address - page;
}
