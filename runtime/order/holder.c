/* Record: asking the holder of the baton to let others go first. Private stack. */
#include "order/holder.h"
#include "base/state.h"
#include "base/user.h"
#include "order/policy.h"

/* The highest byte of the count. No thread makes so many calls that the count reaches it. */
#define HIGHEST_BYTE 7
#define MOST_TIMES_ASKED 20
/* A microsecond or two: longer than a processor delays its stores. */
#define NOTICE_SPINS 50

/* Returns whether the holder will notice the request. The holder may be counting at this moment:
 * its count is right then, but it overwrites the request. */
static u32 is_noticed(const struct domain *domain, u32 lock, const struct context *holder)
{
	u8 highest;
	for (u32 i = 0; i < NOTICE_SPINS; i++)
		__builtin_ia32_pause();
	return ((__atomic_load_n(&domain->lock, __ATOMIC_RELAXED) ^ lock) & ~LENT) ||
	       copy_user(&highest, (const u8 *)&holder->passages + HIGHEST_BYTE, 1) || highest;
}

void ask_holder(struct domain *domain, u32 lock)
{
	const u8 negative = 0x80;
	struct process *process = context_self()->process;
	struct context *holder = __atomic_load_n(&process->holder, __ATOMIC_RELAXED);
	if (domain != &process->private_domain || !holder || orders_by_sections())
		return;
	for (u32 i = 0; i < MOST_TIMES_ASKED; i++)
		if (copy_user((u8 *)&holder->passages + HIGHEST_BYTE, &negative, 1) ||
			is_noticed(domain, lock, holder))
			return;
}
