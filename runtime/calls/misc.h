/* What misc.c offers. */
#ifndef RETAKE_CALLS_MISC_H
#define RETAKE_CALLS_MISC_H
#include "contract/context.h"

struct call;

u32 handle_plainly(struct call *call); /* with nothing special about it */
u32 answer_call(struct call *call, i64 result); /* record: it is not made; the program gets the result */

#endif
