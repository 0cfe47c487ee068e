/* What trace_items.c offers. */
#ifndef RETAKE_LOG_TRACE_ITEMS_H
#define RETAKE_LOG_TRACE_ITEMS_H
#include "log/sink.h"

/* Stages, measures or emits an item, as the sink says. */
void trace_item(struct sink *sink, u32 argument, u64 address, u64 bytes);

#endif
