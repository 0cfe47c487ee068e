/* What exit.c offers. */
#ifndef RETAKE_CALLS_EXIT_H
#define RETAKE_CALLS_EXIT_H
#include "contract/context.h"

void mark_siblings_dying(struct context *context);
void log_exit(struct context *context, u16 number, i64 status);
/* The last word of a stream: from here on the slot may be another thread's. */
void slot_exited(struct context *context);

#endif
