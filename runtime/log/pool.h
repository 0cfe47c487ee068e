/* What pool.c offers. */
#ifndef RETAKE_LOG_POOL_H
#define RETAKE_LOG_POOL_H
#include "contract/context.h"

/* Record: attaches the pool that holds a slot's ring to this address space. Returns 0, or the
 * kernel's error if it has no room. */
i64 pool_attach(struct context *context, const struct slot *slot);

#endif
