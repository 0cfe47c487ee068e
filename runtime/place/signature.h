/* What signature.c offers. */
#ifndef RETAKE_PLACE_SIGNATURE_H
#define RETAKE_PLACE_SIGNATURE_H
#include "contract/context.h"

/* Where it keeps what changes, within the region's part of FORCE_PLACES. */
#define CHANGES_OFFSET 0x10000UL
/* Record, stopped in passing: looks which memory changes. 0: there is nothing more to learn. */
u32 observe_changes(struct context *context, const struct registers *regs);
/* It has copies of all that changes: no trace is needed to find it. */
u32 knows_changes(struct context *context);
void forget_changes(struct context *context);
/* Record: the event of the place at which the thread stands. */
void log_forced(struct context *context, u16 number, u8 flags);
/* What both modes compute. */
u64 forced_vector_hash(u64 extended);
u64 forced_vector(u64 extended, u32 index);
/* The exception flags of mxcsr are not compared, but carried over: an instruction whose SIGFPE the
 * forcing signal has swallowed has set them already when the thread stops before it. */
u64 forced_exceptions(u64 extended);
void forced_put_exceptions(u64 extended, u64 exceptions);

#endif
