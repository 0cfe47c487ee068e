/* The memory of this process that other processes may share. Private stack, or the master handler.
 */
#include "base/shared_ranges.h"
#include "base/state.h"

/* Ranges are never removed. A range too many only makes signatures of forced points shorter. */
void shared_note(u64 start, u64 bytes)
{
	struct process *process = PROCESS_INITIAL;
	if (process->shared_range_count < MAX_SHARED_RANGES)
		process->shared_ranges[process->shared_range_count] =
			(struct address_range){.start = start, .end = start + PAGE_CEIL(bytes)};
	if (process->shared_range_count <= MAX_SHARED_RANGES)
		process->shared_range_count++;
}

void shared_moved(u64 from, u64 bytes, u64 to, u64 new_bytes)
{
	if (shared_overlaps(from, from + (bytes ? bytes : PAGE_BYTES)))
		shared_note(to, new_bytes);
}

/* Returns whether calls of other processes may write to this memory. */
u32 shared_overlaps(u64 start, u64 end)
{
	const struct process *process = PROCESS_INITIAL;
	if (process->shared_range_count > MAX_SHARED_RANGES)
		return 1;
	for (u32 i = 0; i < process->shared_range_count; i++)
		if (overlaps(&process->shared_ranges[i], start, end))
			return 1;
	return 0;
}
