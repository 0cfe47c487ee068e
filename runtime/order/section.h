/* What section.c offers. */
#ifndef RETAKE_ORDER_SECTION_H
#define RETAKE_ORDER_SECTION_H
#include "contract/context.h"
#include "order/compare.h"

/* The runtime: a call. `has_order`: with what other threads do. Record, `may_be_parallel`: it
 * leaves alone what the threads of the process have in the runtime. */
void section_enter(struct context *context, u32 has_order, u32 may_be_parallel);
/* Record: the call is not made without the baton after all. */
void section_take(struct context *context);
/* The runtime: on the way back to the program, last of all. */
void section_leave(struct context *context);
/* Before whatever else the thread does that is in order. */
static inline void section_note(struct context *context)
{
	if (UNLIKELY(context->comparing))
		compare_given_up(context);
}
/* The end of a section, or of an operation. 1: of the outermost. From entry.S, too. */
u32 section_ends(struct context *context);
/* Replay: whether a signal is to be delivered where the section ends that has begun. */
void section_expect_signal(struct context *context);
/* A handler of the program begins, and returns. It is in no section: it may wait for threads that
 * need what the interrupted one has. */
void section_interrupt(struct context *context, struct interrupted *interrupted);
void section_resume(struct context *context, const struct interrupted *interrupted);
/* In a process or thread of its own. */
void section_inherit(struct context *child);

#endif
