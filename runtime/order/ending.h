/* What ending.c offers. */
#ifndef RETAKE_ORDER_ENDING_H
#define RETAKE_ORDER_ENDING_H
#include "contract/context.h"

/* The process ends, as its log says already. At replay only its last thread returns from here, when
 * the others have ended. */
void process_ends(struct context *context, u32 status);
void die_by_signal(struct context *context, u32 number) NORETURN;

#endif
