/* What the runtime does in this session. Code asks for what it means, never for the mode or an
 * option of the session; what concerns the order of threads it asks order/policy.h. docs/DESIGN.md
 * has a table. Each question is one test of a word in the header segment. */
#ifndef RETAKE_BASE_CAPABILITIES_H
#define RETAKE_BASE_CAPABILITIES_H
#include "base/shared.h"

/* Recording, tracing: calls go to the kernel. */
static inline u32 executes(void) { return HEADER->mode != MODE_REPLAY; }
/* Replay: results come from the log. */
static inline u32 answers(void) { return HEADER->mode == MODE_REPLAY; }
/* Recording: what happens is logged so that it can be replayed. */
static inline u32 logs(void) { return HEADER->mode == MODE_RECORD; }
/* Tracing: calls are logged whole, with times, for people to read. Nothing is in order. */
static inline u32 traces(void) { return HEADER->mode == MODE_TRACE; }
/* Recording, replay: what happens in the one happens in the other. */
static inline u32 repeatable(void) { return HEADER->mode != MODE_TRACE; }

/* ---- what is compared, kept, or caught ---- */

static inline u32 checks_memory(void) { return !(HEADER->options & OPTION_CHECK_OFF); }
/* Not only registers and the top of the stack. */
static inline u32 checks_all_memory(void) { return HEADER->options & OPTION_CHECK_FULL; }
/* Recording: events say when they happened. */
static inline u32 stamps_events(void) { return HEADER->options & OPTION_STAMPS; }
/* Recording: what calls move between descriptors. */
static inline u32 keeps_moved_data(void) { return HEADER->options & OPTION_MOVED_DATA; }
/* Reads of the time-stamp counter that are not patched. */
static inline u32 traps_counter(void)
{
	return repeatable() && !(HEADER->options & OPTION_NO_TSC_TRAP);
}
static inline u32 traps_cpuid(void)
{
	return repeatable() && !(HEADER->options & OPTION_NO_CPUID_FAULT);
}

/* ---- replay ---- */

/* Somebody wants all of what the recording has only in part: large inputs, and what is stored in
 * mapped files. */
static inline u32 wants_whole_inputs(void) { return HEADER->options & OPTION_WHOLE_INPUTS; }
/* What the recorded program printed. */
static inline u32 prints(void) { return !(HEADER->options & OPTION_QUIET); }
/* Nobody else sees what the program maps shared. */
static inline u32 maps_alone(void) { return HEADER->options & OPTION_ALONE; }
/* Of an order that lets threads run side by side: all the same one runs at a time. */
static inline u32 settled(void) { return HEADER->options & OPTION_SETTLED; }
/* Streams may end before their threads did. */
static inline u32 streams_are_cut(void) { return HEADER->options & OPTION_CUT_OFF; }
/* A debugger wants one process of the tree. */
static inline u32 is_debugged(void) { return HEADER->options & OPTION_DEBUG; }
/* Not all processes are made. */
static inline u32 skips_processes(void)
{
	return HEADER->options & (OPTION_DEBUG | OPTION_DROPPED);
}

#endif
