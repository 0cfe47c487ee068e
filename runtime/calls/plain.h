/* What plain.c offers. */
#ifndef RETAKE_CALLS_PLAIN_H
#define RETAKE_CALLS_PLAIN_H
#include "contract/context.h"

struct call;

/* Handles a call without special treatment. */
u32 handle_plainly(struct call *call);
/* The same, for a call that on success writes more memory than the table describes. */
u32 handle_with_output(struct call *call, u8 argument, u64 address, u64 bytes);

#endif
