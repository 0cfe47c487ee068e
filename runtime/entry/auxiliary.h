/* What auxiliary.c offers. */
#ifndef RETAKE_ENTRY_AUXILIARY_H
#define RETAKE_ENTRY_AUXILIARY_H
#include "base/types.h"

struct auxiliary {
	u64 kind, value;
};
#define AT_HWCAP2 26
#define AT_SYSINFO_EHDR 33

/* Finds the entry of a kind in the auxiliary vector on a program's stack. `at`: its address.
 * Returns 0 if there is none. */
u32 auxiliary_find(u64 stack_pointer, u64 kind, struct auxiliary *found, u64 *at);
/* Hides from a new program what the runtime needs for itself. */
void auxiliary_restrict(u64 stack_pointer);

#endif
