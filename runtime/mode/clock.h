/* What clock.c offers. */
#ifndef RETAKE_MODE_CLOCK_H
#define RETAKE_MODE_CLOCK_H
#include "contract/context.h"

/* The clock that the thread asks for. 0: the kernel is to be asked. */
u32 clock_record(struct context *context);
void clock_touch(struct context *context, u64 start, u64 bytes);

#endif
