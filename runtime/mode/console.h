/* What console.c offers. */
#ifndef RETAKE_MODE_CONSOLE_H
#define RETAKE_MODE_CONSOLE_H
#include "contract/context.h"

struct call;
struct process;

/* Returns the console that the call writes to; 0: none. */
u32 console_lock(struct call *call);
void console_unlock(struct call *call, u32 which);
void console_logged(struct process *process);
u32 console_hides_data(struct call *call);
void console_replay(struct context *context, const struct event *event);

#endif
