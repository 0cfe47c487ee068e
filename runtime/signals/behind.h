/* What behind.c offers. */
#ifndef RETAKE_SIGNALS_BEHIND_H
#define RETAKE_SIGNALS_BEHIND_H
#include "contract/context.h"

/* Record, in the handler: a signal was put off. */
void signals_want(struct context *context);
/* Record: none is put off any more. */
void signals_settle(struct context *context);
/* A section or an operation is over; all registers are saved, and the thread goes on behind it. */
void signals_behind(struct context *context);

#endif
