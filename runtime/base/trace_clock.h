/* What trace_clock.c offers. */
#ifndef RETAKE_BASE_TRACE_CLOCK_H
#define RETAKE_BASE_TRACE_CLOCK_H
#include "base/types.h"

/* Nanoseconds since 1970. */
u64 trace_clock(u32 *processor);

#endif
