/* What memory.c offers. */
#ifndef RETAKE_CALLS_MEMORY_H
#define RETAKE_CALLS_MEMORY_H
#include "contract/context.h"

/* The program is about to change the mapping of these addresses. `gone`: the mapping vanishes. */
void note_change(struct context *context, u64 start, u64 bytes, u32 gone);

#endif
