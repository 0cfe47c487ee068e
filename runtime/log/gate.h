/* What gate.c offers. */
#ifndef RETAKE_LOG_GATE_H
#define RETAKE_LOG_GATE_H
#include "base/state.h"

/* Where those wait whose turn it is then. */
static inline struct turn_gate *gate_of(struct domain *domain, u64 turn)
{
	return &domain->gates[turn % TURN_GATES];
}
/* The turn, if it has one, is over. */
void turn_complete(struct context *context);
/* Replay, sync policy: those of the process that the thread belongs to, if clocks order them. */
static inline u32 has_progress(const struct context *context)
{
	return context->process->progress_mapped && context->domain &&
	       context->domain != &HEADER->shared_domain;
}
static inline struct progress *progress_of(u32 stream)
{
	return (struct progress *)PROGRESS + stream % MAX_ORDERED_STREAMS;
}
/* The process makes its first thread. */
void progress_create(struct context *context);
/* The thread begins, for those that wait for its operations. */
void progress_begin(struct context *context);
/* Since when nothing has come of waiting. */
struct patience {
	u64 since_ns, progress;
};
/* How many nanoseconds there was no progress, once that is too long; else 0. */
u64 patience_spent(struct patience *patience, u64 progress);
/* Both modes: the thread's stream has ended. The slot is free. */
void stream_ended(struct context *context);

#endif
