/* What displaced.c offers. */
#ifndef RETAKE_PLACE_DISPLACED_H
#define RETAKE_PLACE_DISPLACED_H
#include "base/types.h"

#define MOST_INSTRUCTION_BYTES 15
/* `code` has room for so many bytes, whatever is in those behind the instruction. */
/* Of an instruction that does the same elsewhere; 0: it may not. */
u32 displaced_length(const u8 *code);
/* The same of one that touches no memory, and does not pause. */
u32 displaced_in_registers(const u8 *code);
#define NEAR_CALL 0xe8
#define NEAR_CALL_BYTES 5
/* Where a jump, or such a call, leads without operands in memory; 0: it is none. */
u64 displaced_branch(const u8 *code, u64 rip, u64 flags);

#endif
