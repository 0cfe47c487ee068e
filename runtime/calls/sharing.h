/* What sharing.c offers. */
#ifndef RETAKE_CALLS_SHARING_H
#define RETAKE_CALLS_SHARING_H
#include "contract/context.h"

/* The arguments of an mmap: others may write what it shows. */
u32 shared_by(u64 protection, u64 flags, u64 descriptor);
void shared_join(struct context *context);

#endif
