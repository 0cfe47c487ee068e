/* The header segment. The contract has its layout; these helpers go with it. */
#ifndef RETAKE_BASE_SHARED_H
#define RETAKE_BASE_SHARED_H
#include "contract/header.h"

#define HEADER ((struct header *)HEADER_ADDRESS)
static inline u32 overlaps(const struct address_range *range, u64 start, u64 end)
{
	return start < range->end && range->start < end;
}
/* The index of a file's list among `bucket_count` lists. */
static inline u32 file_bucket(u64 inode, u32 bucket_count) { return (u32)(inode % bucket_count); }

#endif
