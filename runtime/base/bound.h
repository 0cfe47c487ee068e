/* What bound.c offers. */
#ifndef RETAKE_BASE_BOUND_H
#define RETAKE_BASE_BOUND_H
#include "base/types.h"

/* Returns whether a slot has the address of its function. An unbound one has the address of code
 * that enters the dynamic linker. A slot that is gone counts as bound. */
u32 is_bound(u64 slot);
/* The address of the slot for which the dynamic linker was entered, with the linker's two arguments
 * at `stack`; 0: unknown. */
u64 slot_of_call(u64 stack);

#endif
