/* What kept_back.c offers. */
#ifndef RETAKE_CALLS_KEPT_BACK_H
#define RETAKE_CALLS_KEPT_BACK_H
#include "base/capabilities.h"
#include "base/state.h"
#include "mode/call.h"

/* After an madvise that succeeded. */
void kept_back_advised(struct process *process, u64 start, u64 bytes, u64 advice);
/* After a call that unmaps memory. */
void kept_back_gone(struct process *process, u64 start, u64 bytes, i64 result);
/* This memory moves, or part of it may be gone. */
void kept_back_unsure(struct process *process, u64 start, u64 bytes);
/* In a new child, which has no such memory. */
void kept_back_lose(struct process *process);
/* Before the process is copied for an image. */
void kept_back_show(const struct process *process);
/* Afterwards, and in a replay that begins at the image. */
void kept_back_hide(const struct process *process);

/* Functions that look before they call, because a page of code costs a child a fault. */

static inline void kept_back_inherit(struct process *process)
{
	if (UNLIKELY(process->kept_back_count))
		kept_back_lose(process);
}

/* After an mmap. */
static inline void kept_back_mapped(const struct call *call)
{
	const u64 *a = call->arguments;
	struct process *process = call->context->process;
	if (UNLIKELY(process->kept_back_count) && executes() && a[3] & MAP_FIXED)
		kept_back_gone(process, a[0], a[1], call->result);
}

#endif
