/* What observe.c offers. */
#ifndef RETAKE_ORDER_OBSERVE_H
#define RETAKE_ORDER_OBSERVE_H
#include "contract/context.h"
#include "contract/events.h"

/* A call begins: threads that see its effect come after it. */
void call_begins(struct context *context);
/* Returns CALL_PARALLEL if the call needs no baton; at replay the flags of its event. Record:
 * `may`: the call itself permits it. */
u32 call_is_parallel(struct context *context, u32 may);
/* Record: the call that needs no baton has been made. */
void call_is_made(struct context *context);
/* Called before signals are delivered after the call: the senders' calls come before. */
void call_sees_signals(struct context *context);
/* The thread returns to its own code, after whatever it may have seen of other threads. */
void call_ends(struct context *context);
/* Record: what other threads of the process have begun comes before what the thread does next. */
void observe_all(struct context *context);

/* Record: other threads observe this thread from here on. */
void observed_begin(struct context *context);
/* Record: the same for the first thread of its process. */
void observed_create(struct context *context);
/* Record: the thread ends, and others stop observing it. It has the baton. */
void observed_end(struct context *context);

#endif
