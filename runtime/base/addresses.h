/* What addresses.c offers. */
#ifndef RETAKE_BASE_ADDRESSES_H
#define RETAKE_BASE_ADDRESSES_H
#include "base/state.h"

/* Record: what the kernel is told where the program says `limits`. */
void addresses_allowed(
	struct process *process, const struct address_limits *limits, struct address_limits *real);
/* Record: the runtime is about to map so many more bytes, or did not after all. */
void addresses_grow(struct process *process, i64 bytes);
/* Record: bytes of the header that a program gives back when it has begun. */
u64 addresses_forgotten(void);
/* Record: at the beginning of a program. */
void addresses_begin(struct process *process, const struct carried *carried);

#endif
