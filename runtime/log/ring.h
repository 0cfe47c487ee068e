/* What ring.c offers. */
#ifndef RETAKE_LOG_RING_H
#define RETAKE_LOG_RING_H
#include "contract/context.h"

void ring_wait(struct context *context, u64 bytes);
/* Room for so many, at most RING_BYTES, in one piece: the ring is mapped twice. */
static inline u8 *ring_reserve(struct context *context, u64 bytes)
{
	if (UNLIKELY(context->head + bytes - context->tail_seen > RING_BYTES))
		ring_wait(context, bytes);
	return context->ring + (context->head & (RING_BYTES - 1));
}
void ring_publish(struct context *context, u64 bytes);
/* Any size; user memory allowed. */
void ring_write(struct context *context, const void *bytes, u64 count);
/* Of user memory, at least one. */
void ring_copy(u8 *to, const void *bytes, u64 count);
/* And its inline bytes, padded. */
void ring_item(struct context *context, const struct item *item, const void *bytes);
void ring_event(struct context *context, u8 kind, u8 flags, u16 number, i64 value, const void *body,
	u64 body_bytes);
static inline void count_event(struct context *context) { context->event_count++; }
/* Record: the supervisor's drain shall look now. */
void ring_drain(void);

#endif
