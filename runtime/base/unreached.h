/* What unreached.c offers. */
#ifndef RETAKE_BASE_UNREACHED_H
#define RETAKE_BASE_UNREACHED_H
#include "base/state.h"
#include "contract/context.h"

u32 unreached_hide(
	struct process *process, const struct file_entry *file, u64 bias, u64 start, u64 end);
/* What is hidden can be executed again, as the program has it. */
void unreached_restore(struct process *process);
void unreached_show(struct context *context);
/* It is hidden. */
u32 unreached_holds(const struct process *process, u64 address);
void unreached_touch(struct context *context, u64 start, u64 bytes, u32 gone);

#endif
