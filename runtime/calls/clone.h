/* What clone.S offers. */
#ifndef RETAKE_CALLS_CLONE_H
#define RETAKE_CALLS_CLONE_H
#include "contract/context.h"

/* The child goes to child_start(child) on its own stack. */
i64 clone_on_stack(
	u64 flags, u64 stack, u64 parent_tid, u64 child_tid, u64 tls, struct context *child);

#endif
