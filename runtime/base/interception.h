/* What interception.c offers. */
#ifndef RETAKE_BASE_INTERCEPTION_H
#define RETAKE_BASE_INTERCEPTION_H
#include "contract/context.h"

/* Has calls dispatched, or not, as is needed now. */
void arm_interception(struct context *context);
/* A handler's context was kept: it may return through its frame more than once. */
void expect_returns(struct context *context);
void expect_unknown_calls(struct context *context);
/* There is, or will be, code that does not tell by what its threads synchronise. */
void expect_untold(struct context *context, u32 because);
#define MADE_AT_RUN_TIME (~0U)

#endif
