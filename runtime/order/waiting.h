/* What waiting.c offers. */
#ifndef RETAKE_ORDER_WAITING_H
#define RETAKE_ORDER_WAITING_H
#include "contract/context.h"

/* Whoever looks at the process finds where the thread waits, and what for. */
void tell_awaited(struct context *context, const struct awaits *awaits);
/* Looks on for a while whether it comes. 1: it has. */
u32 comes_soon(struct context *context, const struct awaits *awaits);
/* Settled replay: lets others run until it has come, and the thread may run again. */
void settle(struct context *context, const struct awaits *awaits);

#endif
