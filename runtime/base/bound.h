/* What bound.c offers. */
#ifndef RETAKE_BASE_BOUND_H
#define RETAKE_BASE_BOUND_H
#include "contract/context.h"

/* Returns whether the dynamic linker has bound the function of a slot. A slot that is gone counts
 * as bound. */
u32 is_bound(const struct lazy_slot *slot);

#endif
