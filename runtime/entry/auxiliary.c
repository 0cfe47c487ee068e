/* The auxiliary vector of a new program, which follows its arguments and environment. Private
 * stack. */
#include "entry/auxiliary.h"
#include "base/user.h"

#define FSGSBASE 2UL

u32 auxiliary_find(u64 stack_pointer, u64 kind, struct auxiliary *found, u64 *at)
{
	u64 word;
	*at = stack_pointer;
	for (u32 zeros = 0; zeros < 2; *at += 8) {
		if (copy_user(&word, (const void *)*at, 8))
			return 0;
		zeros += *at > stack_pointer && word == 0;
	}
	for (;; *at += sizeof *found) {
		if (copy_user(found, (const void *)*at, sizeof *found) || !found->kind)
			return 0;
		if (found->kind == kind)
			return 1;
	}
}

/* Hides that user code may change %gs, which the runtime uses. Programs then set %fs by arch_prctl.
 */
void auxiliary_restrict(u64 stack_pointer)
{
	struct auxiliary offered;
	u64 at;
	if (!auxiliary_find(stack_pointer, AT_HWCAP2, &offered, &at))
		return;
	offered.value &= ~FSGSBASE;
	copy_user((void *)at, &offered, sizeof offered);
}
