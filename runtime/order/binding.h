/* What binding.c offers. */
#ifndef RETAKE_ORDER_BINDING_H
#define RETAKE_ORDER_BINDING_H
#include "contract/context.h"

/* The thread has called a function by way of an unbound slot, and is about to enter the dynamic
 * linker. */
void binding(struct context *context);

#endif
