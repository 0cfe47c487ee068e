/* What displaced.c offers. */
#ifndef RETAKE_PLACE_DISPLACED_H
#define RETAKE_PLACE_DISPLACED_H
#include "base/types.h"

#define MOST_INSTRUCTION_BYTES 15
/* The length of an instruction that does the same at any address, or 0. `code` has
 * MOST_INSTRUCTION_BYTES readable bytes; those behind the instruction may be anything. */
u32 displaced_length(const u8 *code);
/* The same for instructions that touch no memory and do not pause. */
u32 displaced_in_registers(const u8 *code);
#define NEAR_CALL 0xe8
#define NEAR_CALL_BYTES 5
/* The target of a jump or near call without an operand in memory; 0: the instruction is neither. */
u64 displaced_branch(const u8 *code, u64 rip, u64 flags);

#endif
