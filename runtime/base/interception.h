/* What interception.c offers. */
#ifndef RETAKE_BASE_INTERCEPTION_H
#define RETAKE_BASE_INTERCEPTION_H
#include "contract/context.h"

/* Turns dispatch of system calls on or off, as is needed now. */
void arm_interception(struct context *context);
/* A handler's context was kept: the handler may return through its frame more than once. */
void expect_returns(struct context *context);
void expect_unknown_calls(struct context *context);
/* Some code exists, or is about to, whose synchronisation between threads is not known. `because`
 * is as in `untold` of struct process. */
void expect_untold(struct context *context, u32 because);
#define MADE_AT_RUN_TIME (~0U)

#endif
