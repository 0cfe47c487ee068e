/* What trapped.c offers. */
#ifndef RETAKE_PLACE_TRAPPED_H
#define RETAKE_PLACE_TRAPPED_H
#include "contract/context.h"

/* An instruction that the patcher turned into a trap. */
enum trapped_kind { TRAPPED_NONE, TRAPPED_RANDOM, TRAPPED_PROCESSOR, TRAPPED_BASE };
struct trapped {
	enum trapped_kind kind;
	/* The length of the instruction. */
	u32 length;
	/* 2, 4 or 8. */
	u32 operand_bytes;
	/* The register, by the processor's number. */
	u32 number;
};
/* Decodes the instruction at an address of the program. */
struct trapped trapped_at(u64 rip);
/* Emulates RDRAND, RDSEED and RDPID, and moves on to the next instruction. */
void emulate_trapped(
	struct context *context, struct registers *regs, const struct trapped *trapped);

#endif
