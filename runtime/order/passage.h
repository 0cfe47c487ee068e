/* What passage.c offers. */
#ifndef RETAKE_ORDER_PASSAGE_H
#define RETAKE_ORDER_PASSAGE_H
#include "contract/context.h"

/* Called when the thread has passed a counted function and was asked to come here. Returns 0 if no
 * event names the place: then nothing may happen here. */
u32 passage(struct context *context);
/* Replay: the next event is that of a passage. */
void passage_expect(struct context *context, const struct event *event);

#endif
