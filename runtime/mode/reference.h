/* What reference.c offers. */
#ifndef RETAKE_MODE_REFERENCE_H
#define RETAKE_MODE_REFERENCE_H
#include "base/state.h"
#include "contract/context.h"
#include "gen/numbers.h"

struct call;

/* Recording: a call that may read much of a large file, from before it is made. */
struct reading {
	u64 number, most;
	const u64 *arguments;
	u64 epoch;	   /* files that were under a lease then */
	u64 closed_before; /* descriptors that had been closed, or replaced, in the process */
};
/* Whether bytes that the call returns may be those of a file. */
static inline u32 reads_files(u64 number)
{
	return number == NR_read || number == NR_pread64 || number == NR_readv ||
	       number == NR_preadv || number == NR_preadv2;
}
/* `most`: what it returns at most. */
void reading_begin(struct context *context, struct reading *reading);
/* Puts items that refer to the file in place of the bytes; behind them. NULL: the log takes the
 * bytes. */
u8 *reading_refer(struct context *context, const struct reading *reading, i64 result, u8 *position,
	const u8 *limit);
/* Around a call that may close or replace a descriptor; what the first one returns is for the
 * second. */
u32 closing_begin(const struct call *call);
void closing_end(struct process *process, u32 is_counted);
/* It opened a file under a lease, and would not wait: once more, the lease is being given up. */
void open_past_lease(struct call *call);
/* Somebody else may get the process's descriptors, and move their positions. */
static inline void positions_shared(struct process *process)
{
	memset(process->positions, 0, sizeof process->positions);
}

#endif
