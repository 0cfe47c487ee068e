/* What observe.c offers. */
#ifndef RETAKE_ORDER_OBSERVE_H
#define RETAKE_ORDER_OBSERVE_H
#include "contract/context.h"
#include "contract/events.h"

/* A call begins: others that see what it does come behind it. */
void call_begins(struct context *context);
/* PARALLEL if the call needs no baton; at replay its event's flags. Record: `may`, as far as the
 * call is concerned. */
u32 call_is_parallel(struct context *context, u32 may);
/* Record: the call that needed no baton is made. */
void call_is_made(struct context *context);
/* Signals are delivered behind the call: their senders' calls come before. */
void call_sees_signals(struct context *context);
/* The thread goes on to its own code: it comes behind whatever it may have seen of others. */
void call_ends(struct context *context);
/* Record: whatever others of the process have begun comes before what the thread does next. */
void observe_all(struct context *context);

/* Record: others shall observe the thread, */
void observed_begin(struct context *context);
/* the first of its process, */
void observed_create(struct context *context);
/* or not any more: it ends. It has the baton. */
void observed_end(struct context *context);

#endif
