/* What unreached.c offers. */
#ifndef RETAKE_BASE_UNREACHED_H
#define RETAKE_BASE_UNREACHED_H
#include "base/state.h"
#include "contract/context.h"

u32 unreached_hide(
	struct process *process, const struct file_entry *file, u64 bias, u64 start, u64 end);
/* Makes the hidden pages executable again, as the program expects. */
void unreached_restore(struct process *process);
void unreached_show(struct context *context);
/* Returns whether an address is on a hidden page. */
u32 unreached_holds(const struct process *process, u64 address);
void unreached_touch(struct context *context, u64 start, u64 bytes, u32 gone);

#endif
