/* What stepping.c offers. */
#ifndef RETAKE_PLACE_STEPPING_H
#define RETAKE_PLACE_STEPPING_H
#include "contract/context.h"

u64 scratch_page(const struct context *context);
/* F2 or f3 with movs, cmps, stos, lods, scas: bytes of the instruction; 0 for everything else. */
u32 repeated_string(u64 rip);
/* Over the next instructions. 1: the thread is already; 0: a trap follows. */
u32 bring_over(struct context *context, struct registers *regs);
/* Where that is of which a copy lies at the address; else the address. */
u64 place_in_program(const struct context *context, u64 address);
/* Bytes, or 0. */
u32 pushes_flags(u64 rip);
void clear_pushed_trap_flag(u64 rsp, u32 bytes);
#define TRAP_TRACE 2

#endif
