/* What look.c offers. */
#ifndef RETAKE_LOG_LOOK_H
#define RETAKE_LOG_LOOK_H
#include "contract/context.h"

/* Returns the supervisor's answer. `stage`: LOOK_*. */
i64 look_ask(struct context *context, u32 stage, i64 result);
/* Notes a mapping of interest. */
void look_note(struct context *context, u64 start, u64 bytes, u32 writes);
/* Called before a range is unmapped. Returns whether it may contain a mapping of interest. */
u32 look_unmap(struct context *context, u64 start, u64 bytes);
void look_unmapped(struct context *context, u64 start, u64 bytes);
void look_moved(struct context *context, u64 start, u64 bytes);
/* Called when the process ends, or its memory does. */
void look_end(struct context *context);

#endif
