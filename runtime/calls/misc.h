/* What misc.c offers. */
#ifndef RETAKE_CALLS_MISC_H
#define RETAKE_CALLS_MISC_H
#include "contract/context.h"

struct call;

/* With nothing special about it. */
u32 handle_plainly(struct call *call);

#endif
