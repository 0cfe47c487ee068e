/* What pool.c offers. */
#ifndef RETAKE_LOG_POOL_H
#define RETAKE_LOG_POOL_H
#include "contract/context.h"

/* Record: the pool with the ring of a slot becomes a part of this address space. 0, or an error: of
 * the kernel, which may have no room for it. */
i64 pool_attach(struct context *context, const struct slot *slot);

#endif
