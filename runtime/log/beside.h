/* What beside.c offers. */
#ifndef RETAKE_LOG_BESIDE_H
#define RETAKE_LOG_BESIDE_H
#include "base/shared.h"
#include "base/state.h"
#include "log/sink.h"

#define MOST_PLACES 1024u

/* Pages of the program that may differ between recording and replay at this moment. */
struct places {
	u32 count;
	/* There are more, or it is not known which. */
	u32 unknown;
	struct address_range ranges[MOST_PLACES];
};

/* Returns whether the thread of a context was another one of this process. */
static inline u32 is_beside(const struct context *context, const struct context *one, u32 pid)
{
	return one != context && one->self == one && one->pid == pid && !one->exiting &&
	       (one->thread_alive || !one->is_thread);
}

/* Ranges need not be distinct. */
static inline void add_place(struct places *places, u64 start, u64 end)
{
	if (places->count == MOST_PLACES)
		places->unknown = 1;
	else
		places->ranges[places->count++] =
			(struct address_range){.start = start, .end = PAGE_CEIL(end)};
}

static inline u32 is_among(const struct places *places, u64 start, u64 end)
{
	for (u32 i = 0; i < places->count; i++)
		if (overlaps(&places->ranges[i], start, end))
			return 1;
	return 0;
}

/* Visits all that calls which the other threads of process `pid` are in may have written. */
void visit_beside(struct sink *sink, const struct context *context, u32 pid);

/* Threads run in turns. At replay their number says nothing: some are at the ends of their streams.
 */
void places_beside(struct context *context, struct places *places);

#endif
