/* Handles one item of a call, for the four purposes of a walk (items.c). Before the call, inputs
 * are staged or verified; after it, outputs are measured and emitted. Private stack; touches the
 * program's memory only by copy_user. */
#include "log/sink.h"
#include "base/futex.h"
#include "base/state.h"
#include "base/user.h"
#include "log/beside.h"
#include "log/log.h"
#include "log/request.h"
#include "log/ring.h"
#include "log/trace_items.h"

#define INLINE_PART 32u

#define BLOCK_BYTES 32UL
#define HASH_FACTOR 0x9e3779b97f4a7c15UL

static u64 mix(u64 value)
{
	value ^= value >> 32;
	value *= HASH_FACTOR;
	return value ^ value >> 29;
}

static u64 mix_lanes(const u64 *lanes)
{
	return mix(lanes[0]) ^ mix(lanes[1] + 1) ^ mix(lanes[2] + 2) ^ mix(lanes[3] + 3);
}

#define LANES(bytes)           \
	{                      \
		bytes, 1, 2, 3 \
	}
#define BLOCKS(bytes) (((bytes) + BLOCK_BYTES - 1) / BLOCK_BYTES)

/* Hashes the bytes as if zeros filled the last block. */
u64 hash_user(const void *bytes, u64 count, u32 *faulted)
{
	u64 lanes[4] = LANES(count), tail[4] = {0}, blocks = count / BLOCK_BYTES,
	    rest = count % BLOCK_BYTES;
	if (hash_user_blocks(bytes, blocks, lanes) ||
		copy_user(tail, (const u8 *)bytes + blocks * BLOCK_BYTES, rest)) {
		*faulted = 1;
		return 0;
	}
	if (rest)
		hash_user_blocks(tail, 1, lanes);
	return mix_lanes(lanes);
}

/* stage_whole and stage_part return 1 if the bytes cannot be read. */
static u32 stage_whole(u8 *data, u64 address, u64 total, u32 *hash)
{
	u64 lanes[4] = LANES(total), *last = (u64 *)data + (BLOCKS(total) - 1) * 4;
	last[0] = last[1] = last[2] = last[3] = 0;
	u32 faulted = copy_user(data, (const void *)address, total) != 0;
	hash_user_blocks(data, BLOCKS(total), lanes);
	*hash = (u32)mix_lanes(lanes);
	return faulted;
}

static u32 stage_part(u8 *data, u64 address, u64 total, u64 inline_bytes, u32 *hash)
{
	u32 faulted = 0;
	*hash = (u32)hash_user((const void *)address, total, &faulted);
	if (!inline_bytes || faulted)
		return faulted;
	*(u64 *)(data + ALIGN8(inline_bytes) - 8) = 0;
	return copy_user(data, (const void *)address, inline_bytes) != 0;
}

u8 *stage_input(
	u8 *position, const u8 *limit, u32 argument, u64 address, u64 total, u64 inline_limit)
{
	u64 inline_bytes = total <= inline_limit ? total : INLINE_PART;
	struct item *item = (struct item *)position;
	u8 *data = (u8 *)(item + 1);
	if (data + ALIGN8(inline_bytes) > limit)
		inline_bytes = 0;
	if (data > limit)
		fail("the inputs of one call do not fit");
	u32 hash, is_whole = inline_bytes == total && data + BLOCKS(total) * BLOCK_BYTES <= limit;
	u32 faulted = LIKELY(is_whole) ? stage_whole(data, address, total, &hash)
				       : stage_part(data, address, total, inline_bytes, &hash);
	if (UNLIKELY(faulted))
		inline_bytes = hash = 0;
	*item = (struct item){(u8)argument, ITEM_INPUT, (u16)faulted, (u32)inline_bytes, (u32)total,
		hash, address};
	return data + ALIGN8(inline_bytes);
}

static void verify_input(struct sink *sink, u32 argument, u64 address, u64 total)
{
	const struct item *item = (const struct item *)sink->item;
	if (sink->item + sizeof *item > sink->item_end || item->direction != ITEM_INPUT)
		diverge(sink->context, WHY_INPUT, 0, argument);
	u32 faulted = 0;
	u32 hash = (u32)hash_user((const void *)address, total, &faulted);
	if (UNLIKELY(item->argument != argument || item->address != address ||
		     item->total_bytes != (u32)total || item->flags != faulted ||
		     item->hash != hash))
		diverge(sink->context, WHY_INPUT, item->hash, hash);
	if (UNLIKELY(wants_whole_inputs()) && !faulted && item->inline_bytes < item->total_bytes)
		request(sink->context, REQUEST_INPUT, address, total, 0);
	sink->item += sizeof *item + ALIGN8(item->inline_bytes);
}

u8 *stage_output(u8 *position, const u8 *limit, u32 argument, u64 address, u64 bytes)
{
	u64 size = sizeof(struct item) + ALIGN8(bytes);
	if (UNLIKELY(size > (u64)(limit - position)))
		return NULL;
	*(struct item *)position = output_item(argument, address, bytes);
	ring_copy(position + sizeof(struct item), (const void *)address, bytes);
	return position + size;
}

/* Also writes the output while it fits. Few outputs are large, and a second walk over the arguments
 * would cost more than the call's whole event. */
static void measure_output(struct sink *sink, u32 argument, u64 address, u64 bytes)
{
	sink->bytes += sizeof(struct item) + ALIGN8(bytes);
	u8 *next = sink->overflown
			   ? NULL
			   : stage_output(sink->position, sink->limit, argument, address, bytes);
	if (next)
		sink->position = next;
	else
		sink->overflown = 1;
}

static void emit_output(struct sink *sink, u32 argument, u64 address, u64 bytes)
{
	struct item item = output_item(argument, address, bytes);
	ring_item(sink->context, &item, (const void *)address);
}

void sink_item(struct sink *sink, u32 argument, u64 address, u64 bytes, u64 inline_limit)
{
	if (bytes > sink->largest)
		bytes = sink->largest;
	if (traces()) {
		trace_item(sink, argument, address, bytes);
		return;
	}
	switch (sink->mode) {
	case SINK_INPUT:
		sink->position = stage_input(
			sink->position, sink->limit, argument, address, bytes, inline_limit);
		break;
	case SINK_VERIFY: verify_input(sink, argument, address, bytes); break;
	case SINK_MEASURE: measure_output(sink, argument, address, bytes); break;
	case SINK_EMIT: emit_output(sink, argument, address, bytes); break;
	case SINK_PLACES: add_place(sink->places, PAGE_FLOOR(address), address + bytes); break;
	}
}
