/* What custom.c offers. */
#ifndef RETAKE_CALLS_CUSTOM_H
#define RETAKE_CALLS_CUSTOM_H
#include "contract/context.h"

struct call;

/* Calls the handler that the row names. */
u32 handle_custom(struct call *call);

#endif
