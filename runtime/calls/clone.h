/* What clone.S offers. */
#ifndef RETAKE_CALLS_CLONE_H
#define RETAKE_CALLS_CLONE_H
#include "contract/context.h"

/* The child goes to child_start(child) on its own stack. */
i64 clone_on_stack(
	u64 flags, u64 stack, u64 parent_tid, u64 child_tid, u64 tls, struct context *child);
/* The same by clone3, whose fields say on which stack. */
i64 clone3_on_stack(const u64 *fields, u64 bytes, struct context *child);
/* A copy of the process that is nobody's child here: its number goes to *number. Less than 0: there
 * is none. 0: this is it. Else what made it, which is to be waited for. */
i64 image_copy(u32 *number);

#endif
