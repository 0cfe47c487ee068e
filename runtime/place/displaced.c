/* Instructions that do the same at any address. A thread executes a copy of such an instruction
 * with an `int3` behind it, in place of a single step: a step uses the processor's debug registers,
 * which takes six times as long in a virtual machine. All other instructions are stepped.
 *
 * Besides instructions relative to rip, these are excluded: instructions that can reveal their
 * address (divisions, x87, calls), and those that enter the kernel or are emulated. */
#include "place/displaced.h"

enum {
	KNOWN = 1,
	/* A ModRM byte follows, with the rest of its memory operand. */
	OPERANDS = 2,
	/* An immediate of one byte at the end. */
	BYTE = 4,
	/* An immediate of four bytes; two with the operand-size prefix. */
	WORD = 8,
	/* The immediate has eight bytes with REX.W. */
	WIDE = 16,
	/* Only with the number 0 in the middle of the ModRM byte. */
	FIRST_OF = 32,
	/* Only with the numbers 0 and 1 there. */
	FIRST_TWO = 64,
	/* Touches memory that is no operand, or pauses. */
	MEMORY = 128
};
#define R (KNOWN | OPERANDS)

/* The number in the middle bits of the ModRM byte. */
static u32 number_of(u8 operands) { return operands >> 3 & 7; }

static u32 in_first_map(u8 code, u8 operands)
{
	if (code < 0x40) {
		static const u8 of_arithmetic[8] = {R, R, R, R, KNOWN | BYTE, KNOWN | WORD, 0, 0};
		return of_arithmetic[code & 7];
	}
	switch (code) {
	case 0x50 ... 0x5f: return KNOWN | MEMORY; /* push, pop */
	case 0x68: return KNOWN | WORD | MEMORY;
	case 0x6a: return KNOWN | BYTE | MEMORY;
	case 0x69:
	case 0x81: return R | WORD;
	case 0x6b:
	case 0x80:
	case 0x83:
	case 0xc0:
	case 0xc1: return R | BYTE;
	case 0x63:
	case 0x84 ... 0x8b:
	case 0x8d:
	case 0xd0 ... 0xd3: return R;
	case 0x90:
	case 0xc9: return KNOWN | MEMORY; /* pause, leave */
	case 0x91 ... 0x99:
	case 0x9e:
	case 0x9f: return KNOWN;
	case 0xa8:
	case 0xb0 ... 0xb7: return KNOWN | BYTE;
	case 0xa9: return KNOWN | WORD;
	case 0xb8 ... 0xbf: return KNOWN | WORD | WIDE;
	case 0xc6: return R | BYTE | FIRST_OF; /* the last is xabort */
	case 0xc7: return R | WORD | FIRST_OF; /* the last is xbegin */
	case 0xf6: return number_of(operands) < 2 ? R | BYTE : number_of(operands) < 6 ? R : 0;
	case 0xf7: return number_of(operands) < 2 ? R | WORD : number_of(operands) < 6 ? R : 0;
	case 0xfe:
	case 0xff: return R | FIRST_TWO;
	}
	return 0;
}

/* Instructions of the vector extensions have an immediate byte for the same codes. */
static u32 in_second_map(u8 code, u8 operands)
{
	switch (code) {
	case 0x10 ... 0x18:
	case 0x1e:
	case 0x1f:
	case 0x28 ... 0x2f:
	case 0x40 ... 0x6f:
	case 0x74 ... 0x76:
	case 0x7c ... 0x7f:
	case 0x90 ... 0x9f: return R;
	case 0x70 ... 0x73:
	case 0xa4:
	case 0xac:
	case 0xba:
	case 0xc2:
	case 0xc4 ... 0xc6: return R | BYTE;
	case 0xa3:
	case 0xa5:
	case 0xab:
	case 0xad:
	case 0xaf:
	case 0xb0:
	case 0xb1:
	case 0xb3:
	case 0xb6 ... 0xb8:
	case 0xbb ... 0xbf: return R;
	case 0xc0:
	case 0xc1:
	case 0xc3:
	case 0xd0 ... 0xf6:
	case 0xf8 ... 0xfe: return R;
	case 0xf7: return R | MEMORY; /* a masked store */
	case 0xc7:
		/* The instruction compares and exchanges 8 or 16 bytes. */
		return number_of(operands) == 1 && operands < 0xc0 ? R : 0;
	case 0xc8 ... 0xcf: return KNOWN;
	}
	return 0;
}

static u32 in_third_map(u8 code)
{
	return code <= 0x41 || (code >= 0xc8 && code <= 0xdf) || code == 0xf0 || code == 0xf1 ? R
											      : 0;
}

static u32 in_vector_map(u32 map, u8 code)
{
	switch (map) {
	case 1:
		return code == 0x77   ? KNOWN
		       : code == 0xf7 ? R | MEMORY
		       : (code >= 0x70 && code <= 0x73) || code == 0xc2 ||
				       (code >= 0xc4 && code <= 0xc6)
			       ? R | BYTE
			       : R;
	case 2: return R;
	case 3: return R | BYTE;
	}
	return 0;
}

/* The size of the ModRM byte and what belongs to it; 0: relative to rip. */
static u32 operand_bytes(const u8 *at)
{
	u32 mode = at[0] >> 6, base = at[0] & 7, bytes = 1;
	if (mode == 3)
		return 1;
	if (mode == 0 && base == 5)
		return 0;
	if (base == 4) {
		bytes++;
		if (mode == 0 && (at[1] & 7) == 5)
			return bytes + 4;
	}
	return bytes + (mode == 1 ? 1 : mode == 2 ? 4 : 0);
}

struct prefixes {
	u32 length, wide, short_operands;
};

static struct prefixes read_prefixes(const u8 *code)
{
	struct prefixes found = {0, 0, 0};
	for (; found.length < 5; found.length++) {
		u8 byte = code[found.length];
		if (byte == 0x66)
			found.short_operands = 1;
		else if (byte != 0xf0 && byte != 0xf2 && byte != 0xf3 && byte != 0x64 &&
			 byte != 0x65 && byte != 0x2e && byte != 0x3e)
			break;
	}
	if ((code[found.length] & 0xf0) == 0x40)
		found.wide = code[found.length++] >> 3 & 1;
	return found;
}

/* Returns the length of a known instruction, or 0. `in_registers`: it touches no memory and does
 * not pause. */
static u32 examine(const u8 *code, u32 *in_registers)
{
	struct prefixes prefixes = read_prefixes(code);
	const u8 *at = code + prefixes.length;
	u32 kind;
	*in_registers = 0;
	if (*at == 0xc5) {
		at += 3;
		kind = in_vector_map(1, at[-1]);
	} else if (*at == 0xc4) {
		at += 4;
		kind = in_vector_map(at[-3] & 31, at[-1]);
	} else if (*at == 0x62) {
		at += 5;
		kind = in_vector_map(at[-4] & 15, at[-1]);
	} else if (*at != 0x0f) {
		kind = in_first_map(at[0], at[1]);
		at++;
	} else if (at[1] == 0x38 || at[1] == 0x3a) {
		kind = at[1] == 0x38 ? in_third_map(at[2]) : R | BYTE;
		at += 3;
	} else {
		kind = in_second_map(at[1], at[2]);
		at += 2;
	}
	if (!kind || (kind & FIRST_OF && number_of(*at)) ||
		(kind & FIRST_TWO && number_of(*at) > 1))
		return 0;
	if (kind & OPERANDS) {
		u32 bytes = operand_bytes(at);
		if (!bytes)
			return 0;
		kind |= *at >> 6 == 3 ? 0 : MEMORY;
		at += bytes;
	}
	*in_registers = !(kind & MEMORY);
	u32 word = prefixes.wide && kind & WIDE		       ? 8
		   : prefixes.short_operands && !prefixes.wide ? 2
							       : 4;
	at += (kind & BYTE ? 1 : 0) + (kind & WORD ? word : 0);
	return (u32)(at - code) <= MOST_INSTRUCTION_BYTES ? (u32)(at - code) : 0;
}

u32 displaced_length(const u8 *code)
{
	u32 in_registers;
	return examine(code, &in_registers);
}

u32 displaced_in_registers(const u8 *code)
{
	u32 in_registers, length = examine(code, &in_registers);
	return in_registers ? length : 0;
}

/* Returns whether the status flags meet the condition in the low half of a conditional jump's code.
 */
static u32 holds(u32 condition, u64 flags)
{
	u32 carry = flags & 1, parity = flags >> 2 & 1, zero = flags >> 6 & 1,
	    sign = flags >> 7 & 1, overflow = flags >> 11 & 1, asked = 0;
	switch (condition >> 1) {
	case 0: asked = overflow; break;
	case 1: asked = carry; break;
	case 2: asked = zero; break;
	case 3: asked = carry | zero; break;
	case 4: asked = sign; break;
	case 5: asked = parity; break;
	case 6: asked = sign ^ overflow; break;
	case 7: asked = zero | (sign ^ overflow); break;
	}
	return asked ^ (condition & 1);
}

u64 displaced_branch(const u8 *code, u64 rip, u64 flags)
{
	i32 far = 0;
	if (code[0] == 0x0f && (code[1] & 0xf0) == 0x80) {
		__builtin_memcpy(&far, code + 2, 4);
		return rip + 6 + (holds(code[1] & 15, flags) ? (u64)(i64)far : 0);
	}
	if (code[0] == 0xe9 || code[0] == NEAR_CALL) {
		__builtin_memcpy(&far, code + 1, 4);
		return rip + 5 + (u64)(i64)far;
	}
	if (code[0] == 0xeb || (code[0] & 0xf0) == 0x70)
		return rip + 2 +
		       (code[0] == 0xeb || holds(code[0] & 15, flags)
				       ? (u64)(i64)(signed char)code[1]
				       : 0);
	return 0;
}
