/* What debug.c offers. */
#ifndef RETAKE_MODE_DEBUG_H
#define RETAKE_MODE_DEBUG_H
#include "contract/context.h"

struct call;

/* It is replayed, and a debugger wants one process of the tree. */
u32 is_debugged(void);
/* The process begins, or its new program does. */
void debug_begin(struct context *context);
/* Nobody needs that process. */
u32 debug_skips_child(struct call *call, u64 flags);
/* entry.S: a place for a breakpoint. */
void debug_event(u64 kind, u64 value);
void debug_call(struct context *context);
void debug_return(struct context *context);
static inline u32 debug_catches(const struct context *context)
{
	u64 number = context->number;
	return context->event_count >= context->told_from - 1 ||
	       (number < 64 * CAUGHT_WORDS && context->caught[number / 64] >> number % 64 & 1);
}
static inline u32 debug_pauses(const struct context *context)
{
	return context->event_count >= context->pause_at - 1;
}

#endif
