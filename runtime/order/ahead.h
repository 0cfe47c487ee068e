/* What ahead.c offers. */
#ifndef RETAKE_ORDER_AHEAD_H
#define RETAKE_ORDER_AHEAD_H
#include "contract/context.h"

/* Replay: called on the way back to the program's code. */
void look_ahead(struct context *context);

#endif
