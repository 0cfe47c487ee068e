/* What the runtime does in this session. Code asks for what it means, never for the mode or an
 * option of the session. Questions about the order of threads are in order/policy.h. docs/DESIGN.md
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
/* Tracing: calls are logged whole, with times, for people to read. Threads are not ordered. */
static inline u32 traces(void) { return HEADER->mode == MODE_TRACE; }
/* Recording, replay: replay repeats what happens while recording. */
static inline u32 repeatable(void) { return HEADER->mode != MODE_TRACE; }

/* ---- what is compared, kept, or caught ---- */

static inline u32 checks_memory(void) { return !(HEADER->options & OPTION_CHECK_OFF); }
/* All memory is compared, not only registers and the top of the stack. */
static inline u32 checks_all_memory(void) { return HEADER->options & OPTION_CHECK_FULL; }
/* Recording: events carry the time when they happened. */
static inline u32 stamps_events(void) { return HEADER->options & OPTION_STAMPS; }
/* Recording: data that calls move between descriptors is logged. */
static inline u32 keeps_moved_data(void) { return HEADER->options & OPTION_MOVED_DATA; }
/* Recording: the program ran already, and the supervisor is none of its ancestors. */
static inline u32 is_attached(void) { return HEADER->options & OPTION_ATTACHED; }
/* Reads of the time-stamp counter trap where they are not patched. */
static inline u32 traps_counter(void)
{
	return repeatable() && !(HEADER->options & OPTION_NO_TSC_TRAP);
}
static inline u32 traps_cpuid(void)
{
	return repeatable() && !(HEADER->options & OPTION_NO_CPUID_FAULT);
}

/* ---- replay ---- */

/* A client wants all data of which the recording has only a part: large inputs, and the content of
 * mapped files. */
static inline u32 wants_whole_inputs(void) { return HEADER->options & OPTION_WHOLE_INPUTS; }
/* The output of the recorded program is printed again. */
static inline u32 prints(void) { return !(HEADER->options & OPTION_QUIET); }
/* No other process sees the program's shared mappings. */
static inline u32 maps_alone(void) { return HEADER->options & OPTION_ALONE; }
/* One thread runs at a time, although the recorded order would let threads run in parallel. */
static inline u32 settled(void) { return HEADER->options & OPTION_SETTLED; }
/* Streams may end before their threads did. */
static inline u32 streams_are_cut(void) { return HEADER->options & OPTION_CUT_OFF; }
/* A debugger wants one process of the tree. */
static inline u32 is_debugged(void) { return HEADER->options & OPTION_DEBUG; }
/* Replay leaves some processes out. */
static inline u32 skips_processes(void)
{
	return HEADER->options & (OPTION_DEBUG | OPTION_DROPPED);
}

#endif
