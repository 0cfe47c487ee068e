/* What plain.c offers. */
#ifndef RETAKE_CALLS_PLAIN_H
#define RETAKE_CALLS_PLAIN_H
#include "contract/context.h"

struct call;

/* With nothing special about it. */
u32 handle_plainly(struct call *call);
/* As it, of a call that, if it succeeds, writes more than the table tells of. */
u32 handle_with_output(struct call *call, u8 argument, u64 address, u64 bytes);

#endif
