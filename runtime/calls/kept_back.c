/* Record: memory that the program keeps from its children (MADV_DONTFORK, MADV_WIPEONFORK). An
 * image needs all memory. So while the process is copied for one, this memory is as any other. Only
 * the thread that has the baton comes here. Private stack. */
#include "calls/kept_back.h"
#include "base/capabilities.h"
#include "base/shared.h"
#include "base/sys.h"
#include "gen/numbers.h"
#include "order/policy.h"

enum { MADV_DONTFORK = 10, MADV_DOFORK = 11, MADV_WIPEONFORK = 18, MADV_KEEPONFORK = 19 };

static u32 matters(void) { return HEADER->images_wanted && !orders_by_sections(); }

static void add(struct process *process, u64 start, u64 end, u32 advice)
{
	for (u32 i = 0; i < process->kept_back_count; i++) {
		struct kept_back *one = &process->kept_back[i];
		if (one->advice != advice || (one->at.end != start && one->at.start != end))
			continue;
		if (one->at.end == start)
			one->at.end = end;
		else
			one->at.start = start;
		return;
	}
	if (process->kept_back_count == MAX_KEPT_BACK)
		process->seen.hides_memory = 1;
	else
		process->kept_back[process->kept_back_count++] =
			(struct kept_back){.at = {.start = start, .end = end}, .advice = advice};
}

/* `advice`: only ranges with this one; 0: all. */
static void take_out(struct process *process, u64 start, u64 end, u32 advice)
{
	for (u32 i = process->kept_back_count; i-- > 0;) {
		struct kept_back one = process->kept_back[i];
		if (!overlaps(&one.at, start, end) || (advice && one.advice != advice))
			continue;
		process->kept_back[i] = process->kept_back[--process->kept_back_count];
		if (one.at.start < start)
			add(process, one.at.start, start, one.advice);
		if (one.at.end > end)
			add(process, end, one.at.end, one.advice);
	}
}

void kept_back_advised(struct process *process, u64 start, u64 bytes, u64 advice)
{
	u64 end = start + PAGE_CEIL(bytes);
	u32 keeps = advice == MADV_DONTFORK || advice == MADV_WIPEONFORK;
	u32 kind = advice == MADV_DOFORK       ? MADV_DONTFORK
		   : advice == MADV_KEEPONFORK ? MADV_WIPEONFORK
					       : (u32)advice;
	if (!matters() || start == end)
		return;
	take_out(process, start, end, kind);
	if (keeps)
		add(process, start, end, kind);
}

void kept_back_unsure(struct process *process, u64 start, u64 bytes)
{
	for (u32 i = 0; matters() && i < process->kept_back_count; i++)
		process->seen.hides_memory |=
			overlaps(&process->kept_back[i].at, start, start + bytes);
}

void kept_back_gone(struct process *process, u64 start, u64 bytes, i64 result)
{
	if (result < 0 && result >= -4095)
		kept_back_unsure(process, start, bytes);
	else if (matters())
		take_out(process, PAGE_FLOOR(start), PAGE_CEIL(start + bytes), 0);
}

void kept_back_lose(struct process *process) { take_out(process, 0, ~0UL, MADV_DONTFORK); }

void kept_back_show(const struct process *process)
{
	for (u32 i = 0; i < process->kept_back_count; i++) {
		const struct kept_back *one = &process->kept_back[i];
		sys3(NR_madvise, one->at.start, one->at.end - one->at.start,
			one->advice == MADV_DONTFORK ? MADV_DOFORK : MADV_KEEPONFORK);
	}
}

void kept_back_hide(const struct process *process)
{
	for (u32 i = 0; i < process->kept_back_count; i++) {
		const struct kept_back *one = &process->kept_back[i];
		sys3(NR_madvise, one->at.start, one->at.end - one->at.start, one->advice);
	}
}
