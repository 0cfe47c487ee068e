/* Stopping a thread between sync points. docs/FORCED.md explains it. */
#ifndef RETAKE_PLACE_FORCED_H
#define RETAKE_PLACE_FORCED_H
#include "base/state.h"
#include "contract/context.h"

u32 in_stubs(const struct process *process, u64 address);
enum force_stage { FORCE_NONE, FORCE_TRACE, FORCE_SEEK };
/* What a handler makes of a signal. */
enum handled {
	NOT_HANDLED,
	HANDLED,     /* it was for us */
	HANDLED_STOP /* and the thread is to enter the runtime where it stands, at force_entry */
};
/* Record, at the top of the master handler. `extended`: the frame's XSAVE area. */
enum handled forced_handler(
	struct context *context, struct siginfo *info, struct registers *regs, u64 extended);
/* Record: no forcing signal is on its way any more. */
void force_settle(struct context *context);
/* Record, chaos: maybe a few instructions from here; LEAVE_*. */
u32 force_after(struct context *context);
/* Of the files that were mapped before us. */
void note_stubs(u64 start, u64 bytes);
/* Trace, in the handler: HANDLED_STOP if what was put off can be delivered right here. */
enum handled forced_deliver(const struct context *context, const struct registers *regs);
/* In both modes, at the place itself: logs it, and lets others go first. */
void forced_stand(struct context *context);

#endif
