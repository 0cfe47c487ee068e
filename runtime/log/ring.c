/* The producer's side of a thread's ring: record only. Private stack. A thread whose ring is full
 * waits for the supervisor; no event is ever dropped. */
#include "log/ring.h"
#include "base/capabilities.h"
#include "base/futex.h"
#include "base/rounds.h"
#include "base/shared.h"
#include "base/stamp.h"
#include "base/user.h"

_Static_assert(RING_SLACK < SMALL_RING_BYTES, "there is room for one piece at a time");

void ring_begin(struct context *context)
{
	const struct slot *slot = context->slot;
	context->ring = (u8 *)(POOLS + slot->ring_offset);
	context->ring_bytes = slot->ring_bytes;
	context->head = context->tail_seen = slot->producer.head;
	stamps_begin(context);
	if (executes())
		rounds_arm(context, rounds_so_far(context) + ROUNDS_ALONE);
}

void ring_drain(void)
{
	__atomic_add_fetch(&HEADER->drain_doorbell, 1, __ATOMIC_ACQ_REL);
	futex_wake(&HEADER->drain_doorbell, 1);
}

static void tell_drain(struct context *context)
{
	if (!__atomic_exchange_n(&context->slot->producer.kicked, 1, __ATOMIC_ACQ_REL))
		ring_drain();
}

void ring_wait(struct context *context, u64 bytes)
{
	struct slot *slot = context->slot;
	for (;;) {
		u32 seen = __atomic_load_n(&slot->consumer.tail_futex, __ATOMIC_ACQUIRE);
		__atomic_store_n(&slot->consumer.tail_waiting, 1, __ATOMIC_SEQ_CST);
		context->tail_seen = __atomic_load_n(&slot->consumer.tail, __ATOMIC_SEQ_CST);
		if (context->head + bytes - context->tail_seen <= context->ring_bytes)
			break;
		tell_drain(context);
		futex_wait(&slot->consumer.tail_futex, seen, 1000);
	}
	__atomic_store_n(&slot->consumer.tail_waiting, 0, __ATOMIC_RELEASE);
}

/* Copies the bytes beyond the ring's end to its beginning. */
static SELDOM void wrap(struct context *context, const u8 *start, const u8 *end)
{
	const u8 *ring_end = context->ring + context->ring_bytes;
	const u8 *from = start > ring_end ? start : ring_end;
	memcpy((u8 *)from - context->ring_bytes, from, (u64)(end - from));
}

void ring_publish(struct context *context, const u8 *start, u64 bytes)
{
	if (UNLIKELY(start + bytes > context->ring + context->ring_bytes))
		wrap(context, start, start + bytes);
	context->head += bytes;
	__atomic_store_n(&context->slot->producer.head, context->head, __ATOMIC_RELEASE);
	if (UNLIKELY(context->head - context->tail_seen > context->ring_bytes / 2)) {
		context->tail_seen =
			__atomic_load_n(&context->slot->consumer.tail, __ATOMIC_ACQUIRE);
		if (context->head - context->tail_seen > context->ring_bytes / 2)
			tell_drain(context);
	}
}

#define PIECE_BYTES 0x10000UL
_Static_assert(PIECE_BYTES <= RING_SLACK, "a piece is in one piece");

/* Writes any number of bytes and publishes them piece by piece. User memory that cannot be read
 * becomes zeros: the kernel wrote it a moment ago, so only a racing munmap can have removed it, and
 * then no thread can read it again. */
void ring_write(struct context *context, const void *bytes, u64 count)
{
	const u8 *from = bytes;
	while (count) {
		u64 piece = minimum(count, PIECE_BYTES);
		u8 *to = ring_reserve(context, piece);
		if (copy_user(to, from, piece))
			memset(to, 0, piece);
		ring_publish(context, to, piece);
		from += piece;
		count -= piece;
	}
}

/* Pads the copy to whole words. */
void ring_copy(u8 *to, const void *bytes, u64 count)
{
	*(u64 *)(to + ALIGN8(count) - 8) = 0;
	if (UNLIKELY(copy_user(to, bytes, count)))
		memset(to, 0, count);
}

void ring_item(struct context *context, const struct item *item, const void *bytes)
{
	static const u64 zero = 0;
	u64 count = item->inline_bytes, size = sizeof *item + ALIGN8(count);
	if (LIKELY(size <= PIECE_BYTES)) {
		u8 *at = ring_reserve(context, size);
		*(struct item *)at = *item;
		ring_copy(at + sizeof *item, bytes, count);
		ring_publish(context, at, size);
		return;
	}
	ring_write(context, item, sizeof *item);
	ring_write(context, bytes, count);
	ring_write(context, &zero, ALIGN8(count) - count);
}

/* Rare events that are costly besides calls. All other events are many times as frequent as calls,
 * and close to one. */
#define STAMPED_KINDS                                                                    \
	(1u << EVENT_START | 1u << EVENT_EXIT | 1u << EVENT_SIGNAL | 1u << EVENT_FATAL | \
		1u << EVENT_FORCED)

void ring_event(struct context *context, u8 kind, u8 flags, u16 number, i64 value, const void *body,
	u64 body_bytes)
{
	u64 size = sizeof(struct event) + ALIGN8(body_bytes);
	u8 *at = ring_reserve(context, size + STAMP_BYTES);
	memcpy(at + sizeof(struct event), body, body_bytes);
	memset(at + sizeof(struct event) + body_bytes, 0, ALIGN8(body_bytes) - body_bytes);
	if (STAMPED_KINDS >> kind & 1)
		flags |= stamp_put(context, at + size, stamp_read(context));
	size += stamp_bytes(flags);
	*(struct event *)at = (struct event){(u32)size, kind, flags, number, value};
	ring_publish(context, at, size);
	count_event(context);
}
