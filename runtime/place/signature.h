/* What signature.c offers. */
#ifndef RETAKE_PLACE_SIGNATURE_H
#define RETAKE_PLACE_SIGNATURE_H
#include "contract/context.h"

/* Where changes are kept, within the region's part of FORCE_PLACES. */
#define CHANGES_OFFSET 0x10000UL
/* Record, in a brief stop: finds which memory changes. Returns 0 if there is nothing more to learn.
 */
u32 observe_changes(struct context *context, const struct registers *regs);
/* Returns whether copies of all changing memory exist. Then no trace is needed to find it. */
u32 knows_changes(struct context *context);
void forget_changes(struct context *context);
/* Record: logs the event of the place where the thread stands. */
void log_forced(struct context *context, u16 number, u8 flags);
/* Computed in both modes. */
u64 forced_vector_hash(u64 extended);
u64 forced_vector(u64 extended, u32 index);
/* The exception flags of mxcsr are not compared, but restored. If the forcing signal replaced the
 * SIGFPE of an instruction, the instruction has set them already although the thread stops before
 * it. */
u64 forced_exceptions(u64 extended);
void forced_put_exceptions(u64 extended, u64 exceptions);

#endif
