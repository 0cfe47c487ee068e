/* The header segment: the contract has its layout; here is what goes with it. */
#ifndef RETAKE_BASE_SHARED_H
#define RETAKE_BASE_SHARED_H
#include "contract/header.h"

#define HEADER ((struct header *)HEADER_ADDRESS)
static inline u32 overlaps(const struct address_range *range, u64 start, u64 end)
{
	return start < range->end && range->start < end;
}
/* Where lists of what belongs to a file begin. */
static inline u32 file_bucket(u64 inode, u32 bucket_count) { return (u32)(inode % bucket_count); }

#endif
