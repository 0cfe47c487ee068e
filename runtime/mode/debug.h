/* What debug.c offers. */
#ifndef RETAKE_MODE_DEBUG_H
#define RETAKE_MODE_DEBUG_H
#include "base/debugged.h"
#include "contract/context.h"

struct call;

/* The process begins, or its new program does. */
void debug_begin(struct context *context);
/* Nobody needs that process. */
u32 debug_skips_child(struct call *call, u64 flags);
#endif
