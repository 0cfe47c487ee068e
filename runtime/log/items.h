/* What items.c offers. */
#ifndef RETAKE_LOG_ITEMS_H
#define RETAKE_LOG_ITEMS_H
#include "contract/context.h"
#include "gen/table.h"

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
const struct call_row *find_row(u64 number, const u64 *arguments);
void visit_inputs(struct sink *sink, const struct call_row *row, const u64 *arguments);
void visit_outputs(struct sink *sink, const struct call_row *row, const u64 *arguments, i64 result);
/* Bytes, by one call. */
#define LARGEST_MOVE 0x7ffff000UL
static inline u64 not_negative(u64 value) { return (i64)value < 0 ? 0 : value; }
static inline u64 bytes_of(const struct argument_rule *rule, u64 count)
{
	return minimum(
		minimum(count, LARGEST_MOVE) * rule->element_bytes + rule->count, LARGEST_MOVE);
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
