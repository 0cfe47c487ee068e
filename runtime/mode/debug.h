/* What debug.c offers. */
#ifndef RETAKE_MODE_DEBUG_H
#define RETAKE_MODE_DEBUG_H
#include "base/debugged.h"
#include "contract/context.h"

struct call;

/* Called when the process begins, or its new program does. */
void debug_begin(struct context *context);
/* Returns 1 if the child process is not needed. */
u32 debug_skips_child(struct call *call, u64 flags);
#endif
