/* Record: when events happen. A stamp is the last word of an event that has EVENT_STAMPED: units of
 * the time-stamp counter since the stamp before. It comes with what costs much more than it does:
 * calls that the kernel answers, and events that are rare. Clocks that the program reads tell the
 * time themselves. Any stack. */
#ifndef RETAKE_BASE_STAMP_H
#define RETAKE_BASE_STAMP_H
#include "contract/context.h"

#define STAMP_BYTES 8UL

/* Where the thread's stamps come from, now that it is known whether its counter traps. */
void stamps_begin(struct context *context);
u8 stamp_otherwise(struct context *context, u8 *at);

static inline u64 stamp_since(struct context *context, u64 counter)
{
	u64 now = counter >> STAMP_SHIFT, before = context->slot->producer.stamped;
	context->slot->producer.stamped = now;
	return now - before;
}

/* The time of an event whose stamp is put there later; 0: `stamp_put` finds it out. To read the
 * counter takes long, but what is done between costs hardly anything meanwhile: so this comes first
 * when the kernel is back. */
static inline __attribute__((always_inline)) u64 stamp_read(const struct context *context)
{
	u32 low, high;
	if (UNLIKELY(context->stamps != STAMPS_COUNTER))
		return 0;
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (u64)high << 32 | low;
}

/* Puts it there, behind an event that has all else. The flag that the event has for it. */
static inline __attribute__((always_inline)) u8 stamp_put(
	struct context *context, u8 *at, u64 counter)
{
	if (UNLIKELY(!counter))
		return stamp_otherwise(context, at);
	*(u64 *)at = stamp_since(context, counter);
	return EVENT_STAMPED;
}

/* Of an event with these flags. */
static inline u64 stamp_bytes(u8 flags) { return flags & EVENT_STAMPED ? STAMP_BYTES : 0; }
/* Where its stamp begins, or it ends. */
static inline const u8 *body_end(const struct event *event)
{
	return (const u8 *)event + event->size - stamp_bytes(event->flags);
}

#endif
