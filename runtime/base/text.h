/* Where the runtime's own text ends, and bringing mapped memory in. */
#ifndef RETAKE_BASE_TEXT_H
#define RETAKE_BASE_TEXT_H
#include "base/shared.h"
#include "base/sys.h"
#include "gen/numbers.h"

extern const char runtime_text_end[];

/* System V memory is faulted in page by page, and nothing of it is inherited by a fork: one call
 * saves twenty faults. */
static inline void populate(u64 address, u64 bytes)
{
	sys3(NR_madvise, address, bytes, 22 /* MADV_POPULATE_READ */);
}

/* Record: after the text appeared in this process. */
static inline void populate_text(void)
{
	populate(RUNTIME_TEXT, (u64)runtime_text_end - RUNTIME_TEXT);
}

#endif
