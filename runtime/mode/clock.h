/* What clock.c offers. */
#ifndef RETAKE_MODE_CLOCK_H
#define RETAKE_MODE_CLOCK_H
#include "contract/context.h"

/* Answers the clock that the thread reads. Returns 0 if the kernel has to answer. */
u32 clock_record(struct context *context);
void clock_touch(struct context *context, u64 start, u64 bytes);

#endif
