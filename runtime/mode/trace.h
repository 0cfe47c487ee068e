/* What trace.c offers. */
#ifndef RETAKE_MODE_TRACE_H
#define RETAKE_MODE_TRACE_H
#include "contract/context.h"

struct call;
struct extra_item;

void trace_prepare(struct call *call);
void trace_finish(struct call *call, const struct extra_item *extra, u32 extra_count);

#endif
