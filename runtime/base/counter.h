/* What counter.c offers. */
#ifndef RETAKE_BASE_COUNTER_H
#define RETAKE_BASE_COUNTER_H
#include "base/state.h"

void counter_compare(struct process *process);
/* Record: the counter's ticks, or the kernel's clock in its place. */
u64 counter_read(const struct context *context);

#endif
