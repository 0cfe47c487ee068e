/* What sharing.c offers. */
#ifndef RETAKE_CALLS_SHARING_H
#define RETAKE_CALLS_SHARING_H
#include "contract/context.h"

/* Returns whether, by the arguments of an mmap, other processes can write the memory. */
u32 shared_by(u64 protection, u64 flags, u64 descriptor);
void shared_join(struct context *context);

#endif
