/* What shared_ranges.c offers. */
#ifndef RETAKE_BASE_SHARED_RANGES_H
#define RETAKE_BASE_SHARED_RANGES_H
#include "contract/context.h"

void shared_note(u64 start, u64 bytes);
/* Called after an mremap. */
void shared_moved(u64 from, u64 bytes, u64 to, u64 new_bytes);
u32 shared_overlaps(u64 start, u64 end);

#endif
