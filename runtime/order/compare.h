/* What compare.c offers. */
#ifndef RETAKE_ORDER_COMPARE_H
#define RETAKE_ORDER_COMPARE_H
#include "contract/context.h"

/* A compare-and-exchange of the program begins, or has been tried. Returns 1 if it is over. */
u32 compare(struct context *context, u32 begins);
/* The memory of the exchange or operation cannot be written. */
void compare_faulted(struct context *context);
/* The last attempt failed for good: the thread does something else. */
void compare_given_up(struct context *context);

#endif
