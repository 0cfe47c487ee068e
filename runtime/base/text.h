/* The end of the runtime's own text, and faulting mapped memory in. */
#ifndef RETAKE_BASE_TEXT_H
#define RETAKE_BASE_TEXT_H
#include "base/shared.h"
#include "base/sys.h"
#include "gen/numbers.h"

extern const char runtime_text_end[];

/* Faults memory in with one call instead of about twenty page faults. System V memory is otherwise
 * faulted in page by page, and a fork inherits nothing of it. */
static inline void populate(u64 address, u64 bytes)
{
	sys3(NR_madvise, address, bytes, 22 /* MADV_POPULATE_READ */);
}

/* Record: called after the text appears in this process. */
static inline void populate_text(void)
{
	populate(RUNTIME_TEXT, (u64)runtime_text_end - RUNTIME_TEXT);
}

#endif
