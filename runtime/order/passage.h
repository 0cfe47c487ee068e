/* What passage.c offers. */
#ifndef RETAKE_ORDER_PASSAGE_H
#define RETAKE_ORDER_PASSAGE_H
#include "contract/context.h"

/* The thread has passed a function that is counted, and was to come here. */
void passage(struct context *context);
/* Record: whoever has the baton, as its lock says, is to come here at its next passage, and let
 * others go first. */
void passage_ask(struct domain *domain, u32 lock);
/* Replay: the next event is one of a passage. */
void passage_expect(struct context *context, const struct event *event);

#endif
