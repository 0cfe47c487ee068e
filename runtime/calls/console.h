/* What console.c offers. */
#ifndef RETAKE_CALLS_CONSOLE_H
#define RETAKE_CALLS_CONSOLE_H
#include "contract/context.h"

struct call;

u32 console_lock(struct call *call); /* which console it writes to: 0 none */
void console_unlock(struct call *call, u32 which);
u32 console_hides_data(struct call *call);
void console_replay(struct context *context, const struct event *event);

#endif
