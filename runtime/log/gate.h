/* What gate.c offers. */
#ifndef RETAKE_LOG_GATE_H
#define RETAKE_LOG_GATE_H
#include "base/state.h"

/* The gate where threads wait for this turn. */
static inline struct turn_gate *gate_of(struct domain *domain, u64 turn)
{
	return &domain->gates[turn % TURN_GATES];
}
/* Ends the thread's turn, if it has one. */
void turn_complete(struct context *context);
/* Replay, sync policy: returns whether clocks order the operations of the thread's process. */
static inline u32 has_progress(const struct context *context)
{
	return context->process->progress_mapped && context->domain &&
	       context->domain != &HEADER->shared_domain;
}
static inline struct progress *progress_of(u32 stream)
{
	return (struct progress *)PROGRESS + stream % MAX_ORDERED_STREAMS;
}
/* Called when the process makes its first thread. */
void progress_create(struct context *context);
/* Called when the thread begins, for threads that wait for its operations. */
void progress_begin(struct context *context);
/* The time since which waiting has brought no progress. */
struct patience {
	u64 since_ns, progress;
};
/* Returns how many nanoseconds passed without progress, if that is too long; else 0. */
u64 patience_spent(struct patience *patience, u64 progress);
/* Both modes: the thread's stream has ended. Frees the slot. */
void stream_ended(struct context *context);

#endif
