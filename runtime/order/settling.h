/* What settling.c offers. */
#ifndef RETAKE_ORDER_SETTLING_H
#define RETAKE_ORDER_SETTLING_H
#include "contract/context.h"

/* Settled replay: lets others run until it has come, and the thread may run again. */
void settle(struct context *context, const struct awaits *awaits);

#endif
