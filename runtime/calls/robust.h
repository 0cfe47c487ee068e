/* What robust.c offers. */
#ifndef RETAKE_CALLS_ROBUST_H
#define RETAKE_CALLS_ROBUST_H
#include "contract/context.h"

void robust_release(struct context *context); /* the thread dies */

#endif
