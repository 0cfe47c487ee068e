/* Stopping a thread between sync points. docs/FORCED.md explains it. */
#ifndef RETAKE_PLACE_FORCED_H
#define RETAKE_PLACE_FORCED_H
#include "base/state.h"
#include "contract/context.h"

u32 in_stubs(const struct process *process, u64 address);
enum force_stage { FORCE_NONE, FORCE_TRACE, FORCE_SEEK };
/* What a handler did with a signal. */
enum handled {
	NOT_HANDLED,
	/* The signal was the runtime's. */
	HANDLED,
	/* The same, and the thread enters the runtime where it stands, at force_entry. */
	HANDLED_STOP
};
/* Record: called first in the master handler. `extended`: the frame's XSAVE area. */
enum handled forced_handler(
	struct context *context, struct siginfo *info, struct registers *regs, u64 extended);
/* Record: returns once no forcing signal is on its way. */
void force_settle(struct context *context);
/* Record, chaos: may stop the thread a few instructions from here. Returns LEAVE_*. */
u32 force_after(struct context *context);
/* Notes the stubs of the files that were mapped before the runtime. */
void note_stubs(u64 start, u64 bytes);
/* Trace, in the handler: returns HANDLED_STOP if deferred signals can be delivered here. */
enum handled forced_deliver(const struct context *context, const struct registers *regs);
/* Both modes, at the place itself: logs it and lets other threads go first. */
void forced_stand(struct context *context);

#endif
