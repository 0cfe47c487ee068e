/* Slots of functions that the dynamic linker binds at the first call. Any stack. */
#include "base/bound.h"
#include "base/user.h"

#define MARK_BYTES 4 /* of `endbr64`, which may come first */

u32 is_bound(const struct lazy_slot *slot)
{
	u64 to;
	if (copy_user(&to, (const void *)slot->address, sizeof to))
		return 1;
	return to != slot->unbound && to + MARK_BYTES != slot->unbound;
}
