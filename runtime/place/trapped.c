/* Instructions that the patcher turned into traps in place (crates/patch/src/trapped.rs): their
 * prefixes, `int` with a special number, and `nop`. The results of RDRAND, RDSEED and RDPID are
 * recorded in events like those of RDTSC. The master handler. */
#include "place/trapped.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "log/log.h"
#include "log/ring.h"
#include "order/section.h"
#include "place/watch.h"

#define MOST_BYTES 15
#define INT 0xcd
/* The register's number is added. With 8 more it is RDSEED, or RDPID after an F3 prefix. */
#define RANDOM_TRAP 0xd0
#define BASE_TRAP 0xe0
#define CARRY_FLAG 1UL
#define ARITHMETIC_FLAGS 0x8d5UL

/* The index in struct registers, by the processor's number. */
static const u8 place_of[16] = {13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7};

static u64 readable_from(u8 *code, u64 rip)
{
	memset(code, 0, MOST_BYTES);
	for (u64 count = MOST_BYTES; count; count--)
		if (!copy_user(code, (const void *)rip, count))
			return count;
	return 0;
}

struct trapped trapped_at(u64 rip)
{
	u8 code[MOST_BYTES];
	u64 readable = readable_from(code, rip);
	u32 at = 0, is_word = 0, rex = 0, is_repeated = 0;
	struct trapped trapped = {TRAPPED_NONE, 0, 0, 0};
	for (; at < readable; at++) {
		u8 byte = code[at];
		if ((byte & 0xf0) == 0x40) {
			rex = byte;
			continue;
		}
		if (byte != 0x66 && byte != 0xf2 && byte != 0xf3)
			break;
		is_word |= byte == 0x66;
		is_repeated |= byte == 0xf3;
		rex = 0; /* only a prefix right before the opcode counts */
	}
	if (at + 3 > readable || code[at] != INT)
		return trapped;
	u8 number = code[at + 1];
	trapped.length = at + 3;
	trapped.number = (number & 7U) | (rex & 1U) << 3;
	trapped.operand_bytes = rex & 8 ? 8 : is_word ? 2 : 4;
	if (number == BASE_TRAP)
		trapped.kind = TRAPPED_BASE;
	else if (number >= RANDOM_TRAP && number < BASE_TRAP)
		trapped.kind = number & 8 && is_repeated ? TRAPPED_PROCESSOR : TRAPPED_RANDOM;
	if (trapped.kind == TRAPPED_PROCESSOR)
		trapped.operand_bytes = 8;
	return trapped;
}

/* The value of the processor's auxiliary register. */
static u64 processor(void)
{
	u32 core = 0, node = 0;
	sys3(NR_getcpu, &core, &node, NULL);
	return (u64)node << 12 | core;
}

static u64 answer(struct context *context, const struct trapped *trapped)
{
	u16 number = trapped->kind == TRAPPED_RANDOM ? TSC_RANDOM : TSC_PROCESSOR;
	if (answers()) {
		u64 recorded = (u64)log_take(context, EVENT_TSC, number)->value;
		watch_next(context);
		return recorded;
	}
	u64 value = 0;
	section_note(context);
	if (trapped->kind == TRAPPED_RANDOM)
		sys3(NR_getrandom, &value, sizeof value, 0);
	else
		value = processor();
	ring_event(context, EVENT_TSC, 0, number, (i64)value, NULL, 0);
	return value;
}

void emulate_trapped(struct context *context, struct registers *regs, const struct trapped *trapped)
{
	u64 *operand = (u64 *)regs + place_of[trapped->number], value = answer(context, trapped);
	if (trapped->operand_bytes == 2)
		*operand = (*operand & ~0xffffUL) | (value & 0xffff);
	else
		*operand = trapped->operand_bytes == 4 ? (u32)value : value;
	if (trapped->kind == TRAPPED_RANDOM)
		regs->eflags = (regs->eflags & ~ARITHMETIC_FLAGS) | CARRY_FLAG;
	regs->rip += trapped->length;
}
