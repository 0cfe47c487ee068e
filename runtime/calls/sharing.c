/* Memory that other processes may share: a process that maps it joins the domain of all processes
 * that share memory. Record only; replay finds the TURN event. Private stack. */
#include "calls/sharing.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "calls/mmap.h"
#include "gen/numbers.h"
#include "mode/descriptors.h"
#include "order/baton.h"
#include "order/domain.h"
#include "order/policy.h"

#define TMPFS_MAGIC 0x01021994u
#define HUGETLBFS_MAGIC 0x958458f6u

/* Returns whether other processes can write the memory of this mapping, now or later. Memory that
 * is mapped read-only may be written through another mapping. Files on disk are left out: otherwise
 * all processes that read a cache of the system would be ordered with each other. */
u32 shared_by(u64 protection, u64 flags, u64 descriptor)
{
	u64 statistics[15];
	if ((flags & MAP_TYPE) == MAP_PRIVATE)
		return 0;
	if (protection & PROT_WRITE || flags & MAP_ANONYMOUS)
		return 1;
	if ((status_flags(descriptor) & 3) == 2 /* O_RDWR: mprotect may make it writable */)
		return 1;
	return sys2(NR_fstatfs, (u32)descriptor, statistics) == 0 &&
	       (statistics[0] == TMPFS_MAGIC || statistics[0] == HUGETLBFS_MAGIC);
}

/* Called before the call is staged. */
void shared_join(struct context *context)
{
	const struct domain *domain = context->process->domain;
	/* A vfork child, whose parent stands still and holds the baton for it. */
	u32 is_borrower = context->is_guest && !domain;
	context->slot->ties |= TIE_MEMORY;
	if (makes_order() && !shares_memory(domain) && !is_borrower)
		baton_join(context);
}
