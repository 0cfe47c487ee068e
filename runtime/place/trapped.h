/* What trapped.c offers. */
#ifndef RETAKE_PLACE_TRAPPED_H
#define RETAKE_PLACE_TRAPPED_H
#include "contract/context.h"

/* An instruction that the patcher made a trap. */
enum trapped_kind { TRAPPED_NONE, TRAPPED_RANDOM, TRAPPED_PROCESSOR, TRAPPED_BASE };
struct trapped {
	enum trapped_kind kind;
	u32 length;	   /* of the instruction */
	u32 operand_bytes; /* 2, 4 or 8 */
	u32 number;	   /* of the register, as the processor counts them */
};
/* What is at the program's address. */
struct trapped trapped_at(u64 rip);
/* RDRAND, RDSEED and RDPID. The instruction is done. */
void emulate_trapped(
	struct context *context, struct registers *regs, const struct trapped *trapped);

#endif
