/* Announcements to a debugger that watches a replay. */
#ifndef RETAKE_BASE_DEBUGGED_H
#define RETAKE_BASE_DEBUGGED_H
#include "base/shared.h"
#include "base/state.h"

/* A function for a breakpoint, reached through the entry table. */
static inline void debug_event(u64 kind, u64 value)
{
	((void (*)(u64, u64))(RUNTIME_TEXT + ENTRY_DEBUG_EVENT))(kind, value);
}

/* Announces a system call that the debugger catches, when the program makes it. `debug_return`
 * announces its return. */
static inline void debug_call(struct context *context)
{
	context->caught_call = (u32)context->number + 1;
	debug_event(DEBUG_CALL, context->number);
}

static inline void debug_return(struct context *context)
{
	u64 number = context->caught_call - 1;
	context->caught_call = 0;
	debug_event(DEBUG_RETURN, number);
}

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
