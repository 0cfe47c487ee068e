/* What watch.c offers. */
#ifndef RETAKE_PLACE_WATCH_H
#define RETAKE_PLACE_WATCH_H
#include "contract/context.h"
#include "place/forced.h"

/* Replay: called first in the master handler. */
enum handled watch_handler(
	struct context *context, const struct siginfo *info, struct registers *regs, u64 extended);
void watch_disarm(struct context *context);
/* Replay: called when control is about to return to the program. */
void watch_next(struct context *context);

#endif
