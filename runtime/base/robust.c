/* Robust futexes: what the kernel does with the locks that a dying thread holds, done by us at an
 * ordered point, so that replay can repeat it. The kernel walks the list again later and finds
 * nothing of the thread's any more. Private stack. */
#include "base/robust.h"
#include "base/futex.h"
#include "base/state.h"
#include "base/user.h"

#define OWNER_DIED 0x40000000u
#define WAITERS 0x80000000u
#define THREAD_MASK 0x3fffffffu
#define MOST_ENTRIES 2048u /* the kernel's limit */

struct robust_head {
	u64 next;
	i64 futex_offset;
	u64 pending;
};

static void release(struct context *context, u64 address)
{
	u32 word, died;
	if (address % 4 || copy_user(&word, (const void *)address, 4) ||
		(word & THREAD_MASK) != context->tid)
		return;
	died = (word & WAITERS) | OWNER_DIED;
	if (copy_user((void *)address, &died, 4))
		return;
	if (executes() && word & WAITERS)
		futex_wake((u32 *)address, 1);
}

void robust_release(struct context *context)
{
	struct robust_head head;
	if (!context->robust_list ||
		copy_user(&head, (const void *)context->robust_list, sizeof head))
		return;
	/* The lowest bit marks locks with priority inheritance. */
	u64 pending = head.pending & ~1UL, entry = head.next & ~1UL;
	for (u32 i = 0; i < MOST_ENTRIES && entry && entry != context->robust_list; i++) {
		u64 next;
		/* Before the lock is free for others. */
		u32 more = copy_user(&next, (const void *)entry, 8) == 0;
		if (entry != pending)
			release(context, entry + (u64)head.futex_offset);
		if (!more)
			break;
		entry = next & ~1UL;
	}
	if (pending)
		release(context, pending + (u64)head.futex_offset);
	context->robust_list = 0;
}
