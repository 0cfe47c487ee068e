/* What vdso_clock.c offers. */
#ifndef RETAKE_BASE_VDSO_CLOCK_H
#define RETAKE_BASE_VDSO_CLOCK_H
#include "contract/context.h"

typedef i64 clock_function(u64 first, u64 second);

/* Record: the vDSO's function for a system call; NULL: it has none, or the vDSO is gone. */
clock_function *vdso_clock_of(const struct context *context, u32 number);
/* Calls a clock function. Returns its result. */
i64 vdso_clock_ask(struct context *context, clock_function *function, u64 first, u64 second);

#endif
