/* What sink.c offers. */
#ifndef RETAKE_LOG_SINK_H
#define RETAKE_LOG_SINK_H
#include "contract/context.h"

/* On the path of every call only the needed fields are set: clearing all of them costs as much as
 * the rest. */
struct places;
struct sink {
	enum { SINK_INPUT, SINK_MEASURE, SINK_EMIT, SINK_VERIFY, SINK_PLACES } mode;
	struct context *context;
	/* SINK_INPUT, SINK_MEASURE: where items go. */
	u8 *position, *limit;
	/* SINK_MEASURE: the sum of the items. Items are written at once as long as they fit. */
	u64 bytes;
	/* SINK_MEASURE: an item did not fit, so SINK_EMIT has to follow. */
	u32 overflown;
	/* No item has more bytes than this. */
	u64 largest;
	/* The value of a value-result length before the call. */
	u64 pointee_before;
	/* SINK_PLACES: where the pages of outputs are listed. */
	struct places *places;
	/* SINK_VERIFY: the recorded items. */
	const u8 *item, *item_end;
	/* Trace, SINK_EMIT: the direction of the items. */
	u8 direction;
	/* Trace: the bytes mean nothing to the kernel, so the data limit applies to them. */
	u8 is_data;
	/* Trace, SINK_INPUT: from here on items did not fit. */
	u8 is_late;
	/* Trace, SINK_INPUT: the items that fit. SINK_MEASURE, SINK_EMIT: those still to be
	 * skipped. */
	u32 staged;
	/* Trace, SINK_EMIT: what is left of the measured bytes. */
	u64 room;
};
/* Handles an item as the sink's mode says. */
void sink_item(struct sink *sink, u32 argument, u64 address, u64 bytes, u64 inline_limit);
static inline void one_item(
	struct sink *sink, u32 argument, u64 address, u64 bytes, u64 inline_limit)
{
	if (address && bytes)
		sink_item(sink, argument, address, bytes, inline_limit);
}
/* Inputs up to this many bytes are kept whole for people to read. */
#define INLINE_WHOLE 128u
/* Record: stages an input item. Returns the position behind it. */
u8 *stage_input(
	u8 *position, const u8 *limit, u32 argument, u64 address, u64 total, u64 inline_limit);
static inline struct item output_item(u32 argument, u64 address, u64 bytes)
{
	return (struct item){(u8)argument, ITEM_OUTPUT, 0, (u32)bytes, (u32)bytes, 0, address};
}
/* Stages an output item. Returns the position behind it, or NULL if it does not fit. */
u8 *stage_output(u8 *position, const u8 *limit, u32 argument, u64 address, u64 bytes);
/* Hashes any memory. If it cannot be read, returns 0 and sets *faulted to 1. */
u64 hash_user(const void *bytes, u64 count, u32 *faulted);

#endif
