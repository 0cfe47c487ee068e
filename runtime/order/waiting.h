/* What waiting.c offers. */
#ifndef RETAKE_ORDER_WAITING_H
#define RETAKE_ORDER_WAITING_H
#include "contract/context.h"
#include "contract/events.h"

/* The number of sections that the recorded thread ended in its turn, from the event that ends the
 * turn; ~0 if the next event does not end it. */
u64 sections_of_turn(struct context *context, const struct event *event);
/* Returns whether the stream has no more sections or events of the turn. */
u32 turn_is_over(struct context *context);
/* How long a thread sleeps before it looks again. */
u32 wait_ms(void);
/* Returns whether the turn never comes, because the recording was cut off, and the thread is the
 * next of its process to end. */
u32 never_comes(const struct context *context, u64 turn);
/* Publishes where the thread waits, and what for. */
void tell_awaited(struct context *context, const struct awaits *awaits);
/* Spins for a while. Returns 1 if the awaited turn or operation has come. */
u32 comes_soon(struct context *context, const struct awaits *awaits);
/* Settled replay: lets other threads run until the awaited one has come and this thread may run
 * again. */
void settle(struct context *context, const struct awaits *awaits);

#endif
