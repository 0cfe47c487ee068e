/* What holder.c offers. */
#ifndef RETAKE_ORDER_HOLDER_H
#define RETAKE_ORDER_HOLDER_H
#include "contract/context.h"

/* Asks the holder of the baton, named by its lock, to enter passage() at its next passage and let
 * other threads go first. */
void ask_holder(struct domain *domain, u32 lock);

#endif
