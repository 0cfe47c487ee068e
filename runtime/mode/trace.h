/* What trace.c offers. */
#ifndef RETAKE_MODE_TRACE_H
#define RETAKE_MODE_TRACE_H
#include "contract/context.h"

struct sink;
struct call;
struct extra_item;

void trace_prepare(struct call *call);
void trace_finish(struct call *call, const struct extra_item *extra, u32 extra_count);
void sink_item(struct sink *sink, u32 argument, u64 address, u64 bytes);
/* Nanoseconds since 1970. */
u64 trace_clock(u32 *processor);

#endif
