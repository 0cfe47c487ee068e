/* Items of a trace. Unlike those of a recording they are kept whole, as far as the data limit
 * allows, and are never compared. mode/trace.c says when they are staged. Private stack. */
#include "log/trace_items.h"
#include "base/shared.h"
#include "base/user.h"
#include "log/ring.h"

/* Larger items are copied faster after the call, straight from the program's memory. */
#define STAGED_ITEM_BYTES 0x8000UL

static u64 kept_bytes(const struct sink *sink, u64 bytes)
{
	return sink->is_data ? minimum(bytes, HEADER->data_limit) : bytes;
}

static void stage(struct sink *sink, u32 argument, u64 address, u64 bytes)
{
	u64 kept = kept_bytes(sink, bytes);
	struct item *item = (struct item *)sink->position;
	u8 *data = (u8 *)(item + 1);
	if (sink->is_late || kept > STAGED_ITEM_BYTES || data + ALIGN8(kept) > sink->limit) {
		sink->is_late = 1;
		return;
	}
	if (kept)
		*(u64 *)(data + ALIGN8(kept) - 8) = 0;
	u32 faulted = copy_user(data, (const void *)address, kept) != 0;
	if (faulted)
		kept = 0;
	*item = (struct item){
		(u8)argument, ITEM_INPUT, (u16)faulted, (u32)kept, (u32)bytes, 0, address};
	sink->position = data + ALIGN8(kept);
	sink->staged++;
}

/* Reads one byte of every page. Outputs exist, but inputs may be at addresses that cannot be read.
 */
static u32 readable(u64 address, u64 bytes)
{
	u8 byte;
	for (u64 at = address; at < address + bytes; at = PAGE_FLOOR(at) + PAGE_BYTES)
		if (copy_user(&byte, (const void *)at, 1))
			return 0;
	return 1;
}

static void emit(struct sink *sink, u32 argument, u64 address, u64 bytes, u64 kept)
{
	u64 size = sizeof(struct item) + ALIGN8(kept);
	if (size != sink->room && size + sizeof(struct item) > sink->room)
		return;
	sink->room -= size;
	struct item item = {(u8)argument, sink->direction,
		(u16)(sink->direction == ITEM_INPUT && bytes && !kept && HEADER->data_limit),
		(u32)kept, (u32)bytes, 0, address};
	ring_item(sink->context, &item, (const void *)address);
}

void trace_item(struct sink *sink, u32 argument, u64 address, u64 bytes)
{
	if (sink->mode == SINK_INPUT) {
		stage(sink, argument, address, bytes);
		return;
	}
	if (sink->staged) {
		sink->staged--;
		return;
	}
	u64 kept = kept_bytes(sink, bytes);
	if (sink->direction == ITEM_INPUT && kept && !readable(address, kept))
		kept = 0;
	if (sink->mode == SINK_MEASURE)
		sink->bytes += sizeof(struct item) + ALIGN8(kept);
	else
		emit(sink, argument, address, bytes, kept);
}
