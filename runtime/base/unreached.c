/* Pages of patched files on which no function is known, but the bytes of a call or of a counter
 * read occur. Most are tables, such as those of libcrypto, and no thread executes them. To catch a
 * thread that does, the kernel would have to dispatch all calls, and the counter would have to
 * trap. Instead these pages are not executable. A thread that executes one faults, and the fault
 * turns on dispatch and traps before the thread goes on. Record only. Private stack, or the
 * alternate one after a fault. */
#include "base/unreached.h"
#include "base/interception.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "gen/numbers.h"
#include "gen/table.h"

#define PR_GET_MDWE 66UL

/* Returns whether the kernel would refuse to make a page executable again. */
static u32 is_denied_execution(void) { return sys5(NR_prctl, PR_GET_MDWE, 0, 0, 0, 0) > 0; }

/* Hides the unreached pages within a range of memory, after the image of their file was put over
 * its text. Returns 1 if none of them can be executed now. */
u32 unreached_hide(
	struct process *process, const struct file_entry *file, u64 bias, u64 start, u64 end)
{
	if (!logs() || process->unknown_calls || file->calls != CALLS_PATCHED)
		return 1;
	for (u32 i = 0; i < MAX_UNREACHED; i++) {
		struct address_range pages = {.start = bias + file->unreached[i].start,
			.end = bias + file->unreached[i].end};
		if (pages.start == pages.end || !overlaps(&pages, start, end))
			continue;
		if (process->hidden_count == MAX_HIDDEN || pages.start < start || pages.end > end ||
			is_denied_execution() ||
			sys3(NR_mprotect, pages.start, pages.end - pages.start, PROT_READ))
			return 0;
		process->hidden[process->hidden_count++] = pages;
	}
	return 1;
}

void unreached_restore(struct process *process)
{
	for (u32 i = 0; i < process->hidden_count; i++)
		sys3(NR_mprotect, process->hidden[i].start,
			process->hidden[i].end - process->hidden[i].start, PROT_READ | PROT_EXEC);
	process->hidden_count = 0;
}

/* Makes the hidden pages executable again. From here on everything that the program may do there is
 * caught. */
void unreached_show(struct context *context)
{
	unreached_restore(context->process);
	if (context->is_guest)
		PROCESS_INITIAL->hidden_count = 0;
	expect_unknown_calls(context);
}

u32 unreached_holds(const struct process *process, u64 address)
{
	for (u32 i = 0; i < process->hidden_count; i++)
		if (overlaps(&process->hidden[i], address, address + 1))
			return 1;
	return 0;
}

/* Called before the program changes the mapping of these addresses. `gone`: the mapping vanishes.
 */
void unreached_touch(struct context *context, u64 start, u64 bytes, u32 gone)
{
	struct process *process = context->process;
	u64 end = PAGE_CEIL(start + bytes);
	for (u32 i = process->hidden_count; i-- > 0;) {
		struct address_range *pages = &process->hidden[i];
		if (!overlaps(pages, start, end))
			continue;
		if (!gone || context->is_guest || pages->start < start || pages->end > end) {
			unreached_show(context);
			return;
		}
		*pages = process->hidden[--process->hidden_count];
	}
}
