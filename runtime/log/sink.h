/* What sink.c offers. */
#ifndef RETAKE_LOG_SINK_H
#define RETAKE_LOG_SINK_H
#include "contract/context.h"

/* On the path of every call only the fields that count are set: clearing all of them costs as much
 * as the rest. */
struct sink {
	enum { SINK_INPUT, SINK_MEASURE, SINK_EMIT, SINK_VERIFY } mode;
	struct context *context;
	u8 *position, *limit; /* SINK_INPUT, SINK_MEASURE: where items go */
	/* SINK_MEASURE: sum. Items are written at once as long as they fit, */
	u64 bytes;
	u32 overflown;		   /* and then no longer: SINK_EMIT has to follow */
	u64 largest;		   /* no item has more bytes */
	u64 pointee_before;	   /* what a value-result length was before the call */
	const u8 *item, *item_end; /* SINK_VERIFY */
	/* trace */
	u8 direction; /* SINK_EMIT: of the items */
	/* Bytes that mean nothing to the kernel: the data limit holds for them. */
	u8 is_data;
	u8 is_late; /* SINK_INPUT: from here on they did not fit */
	/* SINK_INPUT: items that did. SINK_MEASURE, SINK_EMIT: to be passed over. */
	u32 staged;
	u64 room; /* SINK_EMIT: what was measured, and is left of it */
};
/* Does with an item what the sink is for. */
void sink_item(struct sink *sink, u32 argument, u64 address, u64 bytes, u64 inline_limit);
static inline void one_item(
	struct sink *sink, u32 argument, u64 address, u64 bytes, u64 inline_limit)
{
	if (address && bytes)
		sink_item(sink, argument, address, bytes, inline_limit);
}
/* Inputs up to this many bytes are kept whole for people to read. */
#define INLINE_WHOLE 128u
/* Record: its item; behind that. */
u8 *stage_input(
	u8 *position, const u8 *limit, u32 argument, u64 address, u64 total, u64 inline_limit);
static inline struct item output_item(u32 argument, u64 address, u64 bytes)
{
	return (struct item){(u8)argument, ITEM_OUTPUT, 0, (u32)bytes, (u32)bytes, 0, address};
}
/* Its item; behind that, or NULL if it does not fit. */
u8 *stage_output(u8 *position, const u8 *limit, u32 argument, u64 address, u64 bytes);
/* Any memory; 0 and *faulted = 1 when it cannot be read. */
u64 hash_user(const void *bytes, u64 count, u32 *faulted);

#endif
