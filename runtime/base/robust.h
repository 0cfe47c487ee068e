/* What robust.c offers. */
#ifndef RETAKE_BASE_ROBUST_H
#define RETAKE_BASE_ROBUST_H
#include "contract/context.h"

/* The thread dies. */
void robust_release(struct context *context);

#endif
