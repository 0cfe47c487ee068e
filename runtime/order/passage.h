/* What passage.c offers. */
#ifndef RETAKE_ORDER_PASSAGE_H
#define RETAKE_ORDER_PASSAGE_H
#include "contract/context.h"

/* The thread has passed a function that is counted, and was to come here. 0: nothing says where it
 * is, so nothing may happen here. */
u32 passage(struct context *context);
/* Replay: the next event is one of a passage. */
void passage_expect(struct context *context, const struct event *event);

#endif
