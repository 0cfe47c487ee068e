/* What clone.S offers. */
#ifndef RETAKE_CALLS_CLONE_H
#define RETAKE_CALLS_CLONE_H
#include "contract/context.h"

/* Makes a child that calls child_start(child) on its own stack. */
i64 clone_on_stack(
	u64 flags, u64 stack, u64 parent_tid, u64 child_tid, u64 tls, struct context *child);
/* The same by clone3, whose fields contain the stack. */
i64 clone3_on_stack(const u64 *fields, u64 bytes, struct context *child);
/* Makes a copy of the process that is not its child. Stores the copy's number in *number. Returns 0
 * in the copy, a negative error if there is none, or else the number of the intermediate process,
 * for which the caller must wait. */
i64 image_copy(u32 *number);

#endif
