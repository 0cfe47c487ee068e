/* What ending.c offers. */
#ifndef RETAKE_ORDER_ENDING_H
#define RETAKE_ORDER_ENDING_H
#include "contract/context.h"

/* Its log says so already; at replay it does with its last thread, and only then this returns. */
void process_ends(struct context *context, u32 status);
void die_by_signal(struct context *context, u32 number) NORETURN;

#endif
