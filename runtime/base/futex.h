/* What futex.c offers. */
#ifndef RETAKE_BASE_FUTEX_H
#define RETAKE_BASE_FUTEX_H
#include "contract/context.h"

void futex_wait(u32 *word, u32 value, u64 timeout_ms);
void futex_wake(u32 *word, i32 count);
/* The time of one of the kernel's clocks. */
u64 clock_ns(u64 clock);
/* The time of the monotonic clock. */
u64 now_ns(void);
/* The processor time that the process has used. */
u64 computed_ns(void);
/* Prints a message on the program's standard error. */
void complain(const char *message);
/* Prints a message and ends the process, after a bug or where the machine cannot go on. */
void fail(const char *message) NORETURN;

#endif
