/* What copied.c offers. */
#ifndef RETAKE_CALLS_COPIED_H
#define RETAKE_CALLS_COPIED_H
#include "contract/context.h"

/* Record, in a child that has a copy of its parent's memory: returns whether the parent had other
 * threads then. `parent` is its process ID. */
u32 copied_beside_others(const struct context *context, u32 parent);
/* Logs the event with what calls of these threads may have written. */
void copied_log(
	struct context *context, u32 parent, struct event event, const void *body, u64 body_bytes);
/* Replay: writes that into the child's memory. It lies between two addresses. */
void copied_restore(struct context *context, const u8 *at, const u8 *end);

#endif
