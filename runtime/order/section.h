/* What section.c offers. */
#ifndef RETAKE_ORDER_SECTION_H
#define RETAKE_ORDER_SECTION_H
#include "contract/context.h"
#include "order/compare.h"

/* Called by the runtime at a system call. `has_order`: the call is ordered with what other threads
 * do. Record, `may_be_parallel`: the call does not touch what the threads of the process share in
 * the runtime. */
void section_enter(struct context *context, u32 has_order, u32 may_be_parallel);
/* Record: takes the baton for a call after all. */
void section_take(struct context *context);
/* Called last by the runtime on the way back to the program. */
void section_leave(struct context *context);
/* Called before anything else that the thread does in order. */
static inline void section_note(struct context *context)
{
	if (UNLIKELY(context->comparing))
		compare_given_up(context);
}
/* Ends a section or an operation. Returns 1 if it was the outermost. Called from entry.S, too. */
u32 section_ends(struct context *context);
/* Replay: checks whether a signal is delivered at the end of the section that has begun. */
void section_expect_signal(struct context *context);
/* A handler of the program begins; section_resume: it returns. A handler is in no section, because
 * it may wait for threads that need what the interrupted one holds. */
void section_interrupt(struct context *context, struct interrupted *interrupted);
void section_resume(struct context *context, const struct interrupted *interrupted);
/* Called in a new process or thread. */
void section_inherit(struct context *child);

#endif
