/* Does to the memory of a dying thread what the kernel does, but at an ordered point, so that
 * replay can repeat it: releases the locks of its robust list and clears the word that says that
 * the thread lives. When the kernel walks the list later, it finds nothing left to do. Private
 * stack. */
#include "base/robust.h"
#include "base/futex.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"

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

static void release_list(struct context *context)
{
	struct robust_head head;
	if (!context->robust_list ||
		copy_user(&head, (const void *)context->robust_list, sizeof head))
		return;
	/* The lowest bit marks locks with priority inheritance. */
	u64 pending = head.pending & ~1UL, entry = head.next & ~1UL;
	for (u32 i = 0; i < MOST_ENTRIES && entry && entry != context->robust_list; i++) {
		u64 next;
		/* Read `next` before the lock is free for other threads. */
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

void thread_id_clear(struct context *context)
{
	static const u32 zero = 0;
	if (!context->clear_tid)
		return;
	if (context->is_guest && executes())
		/* The kernel must not clear the word again after the program reuses it. */
		sys1(NR_set_tid_address, 0);
	copy_user((void *)context->clear_tid, &zero, 4);
	if (executes())
		futex_wake((u32 *)context->clear_tid, 1);
	context->clear_tid = 0;
}

void memory_left(struct context *context)
{
	release_list(context);
	if (context->is_guest)
		thread_id_clear(context);
}
