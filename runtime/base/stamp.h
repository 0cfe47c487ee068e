/* Record: when events happen. A stamp is the last word of an event that has EVENT_STAMPED. It
 * counts units of the time-stamp counter since the stamp before. Only events that cost much more
 * than a stamp have one: calls that the kernel answers, and rare events. Clocks that the program
 * reads tell the time anyway. Any stack. */
#ifndef RETAKE_BASE_STAMP_H
#define RETAKE_BASE_STAMP_H
#include "contract/context.h"

#define STAMP_BYTES 8UL

/* Chooses the source of the thread's stamps, once it is known whether its counter traps. */
void stamps_begin(struct context *context);
u8 stamp_otherwise(struct context *context, u8 *at);

static inline u64 stamp_since(struct context *context, u64 counter)
{
	u64 now = counter >> STAMP_SHIFT, before = context->slot->producer.stamped;
	context->slot->producer.stamped = now;
	return now - before;
}

/* Reads the time for a stamp that is written later. Returns 0 if `stamp_put` has to find the time.
 * Reading the counter takes long but overlaps with the work that follows, so callers do it first
 * when the kernel is back. */
static inline __attribute__((always_inline)) u64 stamp_read(const struct context *context)
{
	u32 low, high;
	if (UNLIKELY(context->stamps != STAMPS_COUNTER))
		return 0;
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (u64)high << 32 | low;
}

/* Writes the stamp behind the rest of the event. Returns the flag that the event gets for it. */
static inline __attribute__((always_inline)) u8 stamp_put(
	struct context *context, u8 *at, u64 counter)
{
	if (UNLIKELY(!counter))
		return stamp_otherwise(context, at);
	*(u64 *)at = stamp_since(context, counter);
	return EVENT_STAMPED;
}

/* The size of the stamp of an event with these flags. */
static inline u64 stamp_bytes(u8 flags) { return flags & EVENT_STAMPED ? STAMP_BYTES : 0; }
/* The end of an event without its stamp. */
static inline const u8 *body_end(const struct event *event)
{
	return (const u8 *)event + event->size - stamp_bytes(event->flags);
}

#endif
