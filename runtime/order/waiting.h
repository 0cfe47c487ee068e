/* What waiting.c offers. */
#ifndef RETAKE_ORDER_WAITING_H
#define RETAKE_ORDER_WAITING_H
#include "contract/context.h"
#include "contract/events.h"

/* Sections that the recorded thread ended in its turn, as the event says that ends the turn; ~0 if
 * the next event is not that. */
u64 sections_of_turn(const struct event *event);
/* No more sections of its turn, nor events, are in its stream. */
u32 turn_is_over(struct context *context);
/* Whoever looks at the process finds where the thread waits, and what for. */
void tell_awaited(struct context *context, const struct awaits *awaits);
/* Looks on for a while whether it comes. 1: it has. */
u32 comes_soon(struct context *context, const struct awaits *awaits);
/* Settled replay: lets others run until it has come, and the thread may run again. */
void settle(struct context *context, const struct awaits *awaits);

#endif
