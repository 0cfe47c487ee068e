/* Stopping a thread between sync points. docs/FORCED.md explains it. */
#ifndef RETAKE_PLACE_FORCED_H
#define RETAKE_PLACE_FORCED_H
#include "base/state.h"
#include "contract/context.h"

u32 in_stubs(const struct process *process, u64 address);
#define STACK_WINDOW 0x8000UL /* what tells rounds of an outer loop apart lies in the frames of callers */
#define BUSY_MOST 512
/* Before the thread is stopped for good it is stopped twice in passing, to see which memory its loop changes. */
enum force_phase { PHASE_FIRST, PHASE_LISTED, PHASE_COPIED };
enum force_stage { FORCE_NONE, FORCE_TRACE, FORCE_SEEK };
/* At the top of the master handler: 1 when the signal was for us. `extended`: the frame's XSAVE area. */
u32 forced_handler(struct context *context, struct siginfo *info, struct registers *regs, u64 extended);
void force_want(struct context *context, u32 in_runtime); /* record, in the handler: a signal was put off */
void force_settle(struct context *context);               /* record: no forcing signal is on its way any more */
void force_close(struct context *context);                /* record: and none will come until force_open */
void force_open(struct context *context);
u32 force_after(struct context *context);                 /* record, chaos: maybe a few instructions from here; LEAVE_* */
void note_stubs(u64 start, u64 bytes);                    /* of the files that were mapped before us */
void force_to_entry(struct context *context, struct registers *regs);
u32 forced_deliver(struct context *context, struct registers *regs); /* trace, in the handler: what was put off is delivered right here, if it can be */
/* What both modes compute. */
u64 forced_vector_hash(u64 extended);
u64 forced_vector(u64 extended, u32 index);

#endif
