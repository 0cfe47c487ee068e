/* What passage.c offers. */
#ifndef RETAKE_ORDER_PASSAGE_H
#define RETAKE_ORDER_PASSAGE_H
#include "contract/context.h"

void passage(struct context *context);     /* the thread has passed a function that is counted, and was to come here */
void passage_ask(struct domain *domain, u32 lock); /* record: whoever has the baton, as its lock says, is to come here at its next passage, and let others go first */
void passage_expect(struct context *context, const struct event *event); /* replay: the next event is one of a passage */

#endif
