/* What ring.c offers. */
#ifndef RETAKE_LOG_RING_H
#define RETAKE_LOG_RING_H
#include "contract/context.h"

/* Prepares the ring of the thread's slot. The pool must be attached. */
void ring_begin(struct context *context);
void ring_wait(struct context *context, u64 bytes);
/* Reserves this many bytes in one piece, at most RING_SLACK. */
static inline u8 *ring_reserve(struct context *context, u64 bytes)
{
	if (UNLIKELY(context->head + bytes - context->tail_seen > context->ring_bytes))
		ring_wait(context, bytes);
	return context->ring + (context->head & (context->ring_bytes - 1));
}
/* Publishes the next bytes of the last reservation, which begin at `start`. */
void ring_publish(struct context *context, const u8 *start, u64 bytes);
/* Writes bytes of any number, also from user memory. */
void ring_write(struct context *context, const void *bytes, u64 count);
/* Copies at least one byte, also from user memory. */
void ring_copy(u8 *to, const void *bytes, u64 count);
/* Writes an item and its inline bytes, padded. */
void ring_item(struct context *context, const struct item *item, const void *bytes);
void ring_event(struct context *context, u8 kind, u8 flags, u16 number, i64 value, const void *body,
	u64 body_bytes);
static inline void count_event(struct context *context) { context->event_count++; }
/* Record: makes the supervisor's drain look now. */
void ring_drain(void);

#endif
