/* What holder.c offers. */
#ifndef RETAKE_ORDER_HOLDER_H
#define RETAKE_ORDER_HOLDER_H
#include "contract/context.h"

/* The holder of the baton, as its lock says, is to come to passage() at its next passage, and let
 * others go first. */
void ask_holder(struct domain *domain, u32 lock);

#endif
