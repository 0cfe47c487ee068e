/* What addresses.c offers. */
#ifndef RETAKE_BASE_ADDRESSES_H
#define RETAKE_BASE_ADDRESSES_H
#include "base/state.h"

/* The kernel's `struct rlimit64`. */
struct limits {
	u64 soft, hard;
};

/* Record: translates the limits that the program sets, `limits`, into those for the kernel, `real`.
 */
void addresses_allowed(struct process *process, const struct limits *limits, struct limits *real);
/* Record: the runtime is about to map `bytes` more, or, if negative, did not map them after all. */
void addresses_grow(struct process *process, i64 bytes);
/* Record: the bytes of the header that a program unmaps once it has begun. */
u64 addresses_forgotten(void);
/* Record: called at the beginning of a program. */
void addresses_begin(struct process *process, const struct carried *carried);

#endif
