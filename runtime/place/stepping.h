/* What stepping.c offers. */
#ifndef RETAKE_PLACE_STEPPING_H
#define RETAKE_PLACE_STEPPING_H
#include "contract/context.h"

u64 scratch_page(const struct context *context);
/* Returns the length of a movs, cmps, stos, lods or scas with the prefix F2 or F3; 0 for all other
 * instructions. */
u32 repeated_string(u64 rip);
/* Brings the thread over the next instructions. Returns 1 if it is over them already, 0 if a trap
 * follows. */
u32 bring_over(struct context *context, struct registers *regs);
/* Translates an address in a copied instruction to the original. Returns other addresses unchanged.
 */
u64 place_in_program(const struct context *context, u64 address);
/* Returns the bytes of flags that the instruction pushes, or 0. */
u32 pushes_flags(u64 rip);
void clear_pushed_trap_flag(u64 rsp, u32 bytes);
#define TRAP_TRACE 2

#endif
