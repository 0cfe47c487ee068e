/* What reference.c offers. */
#ifndef RETAKE_MODE_REFERENCE_H
#define RETAKE_MODE_REFERENCE_H
#include "base/state.h"
#include "contract/context.h"
#include "gen/numbers.h"

struct call;

/* Recording: a call that may read much of a large file, prepared before it is made. */
struct reading {
	u64 number, most;
	const u64 *arguments;
	/* The lease epoch before the call: files leased by then count. */
	u64 epoch;
	/* The process's count of closed or replaced descriptors before the call. */
	u64 closed_before;
};
/* Returns whether the call may return bytes of a file. */
static inline u32 reads_files(u64 number)
{
	return number == NR_read || number == NR_pread64 || number == NR_readv ||
	       number == NR_preadv || number == NR_preadv2;
}
/* `most`: the most bytes that the call returns. */
void reading_begin(struct context *context, struct reading *reading);
/* Writes items that refer to the file in place of the bytes. Returns the position behind them, or
 * NULL if the log has to take the bytes. */
u8 *reading_refer(struct context *context, const struct reading *reading, i64 result, u8 *position,
	const u8 *limit);
/* These two enclose a call that may close or replace a descriptor. closing_end gets what
 * closing_begin returned. */
u32 closing_begin(const struct call *call);
void closing_end(struct process *process, u32 is_counted);
/* The call opened a file under a lease without waiting and failed. Tries again while the lease is
 * given up. */
void open_past_lease(struct call *call);
/* Other processes may get the process's descriptors and move their positions. */
static inline void positions_shared(struct process *process)
{
	memset(process->positions, 0, sizeof process->positions);
}

#endif
