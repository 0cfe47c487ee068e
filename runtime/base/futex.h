/* What futex.c offers. */
#ifndef RETAKE_BASE_FUTEX_H
#define RETAKE_BASE_FUTEX_H
#include "contract/context.h"

void futex_wait(u32 *word, u32 value, u64 timeout_ms);
void futex_wake(u32 *word, i32 count);
/* Of one of the kernel's clocks. */
u64 clock_ns(u64 clock);
/* On the monotonic clock. */
u64 now_ns(void);
/* How long the process has used processors. */
u64 computed_ns(void);
/* On the program's standard error. */
void complain(const char *message);
/* A bug, or the machine cannot go on: say so and end the process. */
void fail(const char *message) NORETURN;

#endif
