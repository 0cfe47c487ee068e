/* The signature, which distinguishes the visits of a place at which a thread was stopped: registers
 * and vectors, words of its stack, of memory that registers point to and of memory that changes,
 * and a hash of all memory.
 *
 * Context: observe_changes, and callers that read vectors, run in the master handler, on the
 * alternate stack; the rest runs on the private stack. */
#include "place/signature.h"
#include "base/futex.h"
#include "base/shared.h"
#include "base/shared_ranges.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "log/hash.h"
#include "log/ring.h"
#include "log/sink.h"
#include "order/passage.h"
#include "place/neighbourhood.h"
#include "place/stepping.h"

/* Page hashes are at CHANGES_OFFSET, followed by copies of pages that change. */
#define COPIES_OFFSET 0x30000UL
#define CHANGES_END (COPIES_OFFSET + FORCE_PAGES * PAGE_BYTES)
#define STACK_WORDS_BELOW 16
#define STACK_WORDS 400
/* The other areas are only compared by hash, which no stub can do. */
#define AREAS_IN_WORDS 48
#define AREA_WORDS 8
#define CHANGED_WORDS 1000
#define CHEAP_SCAN_NS 4000000UL
/* Beside other threads, pauses between scans are this many times as long as the scan was. */
#define PAUSE_SCANS 20
/* The slice of a thread that only waited for another one when it was stopped last. */
#define SPINNING_US 1000
#define FRAME_WORDS_BELOW 16
#define FRAME_WORDS 20
#define MXCSR_OFFSET 24
#define EXCEPTION_FLAGS 0x3fU

/* Before the final stop the thread is stopped twice briefly, to see which memory its loop changes.
 */
enum force_phase { PHASE_FIRST, PHASE_LISTED, PHASE_COPIED };

/* ---- which memory changes ----
 *
 * The memory hash distinguishes visits of a place that look the same otherwise, but it is far too
 * slow for replay to compare at each visit. So the runtime finds the words that change from round
 * to round, in any loop. It takes page hashes at one moment, copies of the changed pages at a
 * second moment, and at the final stop the words that differ from the copies. */

_Static_assert(
	CHANGES_OFFSET + sizeof(struct page_list) <= COPIES_OFFSET && CHANGES_END <= FORCE_STRIDE,
	"the lists have room");

static struct page_list *list_of(struct context *context)
{
	return (struct page_list *)(scratch_page(context) + CHANGES_OFFSET);
}
static u8 *copies_of(struct context *context)
{
	return (u8 *)(scratch_page(context) + COPIES_OFFSET);
}

void forget_changes(struct context *context)
{
	if (context->force.phase != PHASE_FIRST)
		sys2(NR_munmap, list_of(context), CHANGES_END - CHANGES_OFFSET);
	context->force.phase = PHASE_FIRST;
}

static u32 is_alone(const struct context *context)
{
	return !context->process->domain && context->process->thread_count <= 1;
}

/* Returns whether memory may be hashed now. Beside other threads it may not: the kernel may be
 * writing for them. In large processes scans take at most a ninth of the time. */
static u32 may_hash(const struct context *context)
{
	const struct process *process = context->process;
	return is_alone(context) &&
	       (process->scan_ns < CHEAP_SCAN_NS || now_ns() >= process->scan_allowed_ns);
}

/* Returns whether to scan memory for changes. */
static u32 may_scan(const struct context *context)
{
	const struct process *process = context->process;
	return process->scan_ns < CHEAP_SCAN_NS &&
	       (is_alone(context) || now_ns() >= process->scan_allowed_ns);
}

/* Returns whether the thread only waited for another one when it was stopped last. It is stopped
 * too often to look for changes. */
static u32 has_spun(const struct context *context)
{
	u32 slice_us = context->slot->baton.slice_us;
	return !is_alone(context) && slice_us && slice_us <= SPINNING_US;
}

static void scanned(struct context *context, u64 start)
{
	struct process *process = context->process;
	u64 end = now_ns();
	process->scan_ns = end - start;
	process->scan_allowed_ns = end + (is_alone(context) ? 8 : PAUSE_SCANS) * (end - start);
}

/* Beside other threads, the trace also tells whether this one only waits for another one. */
u32 knows_changes(struct context *context)
{
	const struct page_list *list = list_of(context);
	return is_alone(context) && context->force.phase == PHASE_COPIED && list->changed_count &&
	       list->changed_count < FORCE_PAGES;
}

static u32 map_lists(struct context *context)
{
	u64 at = (u64)list_of(context);
	return sys6(NR_mmap, at, CHANGES_END - CHANGES_OFFSET, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, ~0UL, 0) == (i64)at;
}

static u32 copy_changed(struct context *context)
{
	const struct page_list *list = list_of(context);
	context->force.phase = PHASE_COPIED;
	for (u64 i = 0; i < list->changed_count; i++)
		copy_user(copies_of(context) + i * PAGE_BYTES, (const void *)list->changed[i],
			PAGE_BYTES);
	return 1;
}

/* Where scans would take too long: copies the pages that changed earlier. */
static u32 copy_likely(struct context *context)
{
	const struct force *force = &context->force;
	struct page_list *list = list_of(context);
	if (is_alone(context) || !force->likely_count || !map_lists(context))
		return 0;
	list->changed_count = force->likely_count;
	memcpy(list->changed, force->likely, sizeof force->likely);
	return copy_changed(context);
}

static u32 observe(struct context *context, const struct registers *regs)
{
	struct force *force = &context->force;
	struct page_list *list = list_of(context);
	u64 start = now_ns();
	context->regs = *regs;
	if (force->phase == PHASE_FIRST && !has_spun(context)) {
		if (!may_scan(context))
			return copy_likely(context);
		if (!map_lists(context))
			return 0;
		force->phase = PHASE_LISTED;
		memory_list(context, list);
		scanned(context, start);
		return list->count <= PAGE_LIST_CAPACITY;
	}
	if (force->phase != PHASE_LISTED)
		return 0;
	if (list->count > PAGE_LIST_CAPACITY) {
		force->phase = PHASE_COPIED;
		return 0;
	}
	memory_list(context, list);
	scanned(context, start);
	return copy_changed(context);
}

u32 observe_changes(struct context *context, const struct registers *regs)
{
	u32 in_passing = observe(context, regs);
	if (in_passing && !is_alone(context))
		/* The next stop may follow at once. */
		context->slot->baton.stop_us = 0;
	return in_passing;
}

static void add_likely(struct force *force, u64 page)
{
	if ((page >= RUNTIME_TEXT && page < RUNTIME_END) ||
		shared_overlaps(page, page + PAGE_BYTES))
		return;
	for (u64 i = 0; i < force->likely_count; i++)
		if (force->likely[i] == page)
			return;
	u64 count = minimum(force->likely_count, FORCE_PAGES - 1);
	memmove(&force->likely[1], &force->likely[0], count * sizeof page);
	force->likely[0] = page;
	force->likely_count = count + 1;
}

/* Remembers the pages that this stop has seen changing. */
static void remember_changes(struct context *context)
{
	struct force *force = &context->force;
	if (force->phase == PHASE_COPIED)
		for (u64 i = 0; i < list_of(context)->changed_count; i++)
			add_likely(force, list_of(context)->changed[i]);
	for (u64 i = 0; i < force->answer.written_count; i++)
		add_likely(force, PAGE_FLOOR(force->answer.written[i]));
}

/* ---- the signature ---- */

/* Hashes the vectors without the parts that the processor may or may not keep: the last x87
 * instruction's addresses, the header, and components beyond AVX. */
u64 forced_vector_hash(u64 extended)
{
	u64 area[832 / 8];
	u32 faulted = 0;
	u64 bytes = minimum(HEADER->extended_bytes, sizeof area);
	if (!extended || copy_user(area, (const void *)extended, bytes))
		return 0;
	memset((u8 *)area + 6, 0, 18);
	/* Clears the exception flags, and MXCSR_MASK in the other half of this word. */
	area[MXCSR_OFFSET / 8] &= (u32)~EXCEPTION_FLAGS;
	memset((u8 *)area + 416, 0, 160);
	return hash_user(area, bytes, &faulted);
}

static u32 mxcsr(u64 extended)
{
	u32 value = 0;
	if (extended)
		copy_user(&value, (const void *)(extended + MXCSR_OFFSET), sizeof value);
	return value;
}

u64 forced_exceptions(u64 extended) { return mxcsr(extended) & EXCEPTION_FLAGS; }

void forced_put_exceptions(u64 extended, u64 exceptions)
{
	u32 value = (mxcsr(extended) & ~EXCEPTION_FLAGS) | (u32)(exceptions & EXCEPTION_FLAGS);
	if (extended)
		copy_user((void *)(extended + MXCSR_OFFSET), &value, sizeof value);
}

u64 forced_vector(u64 extended, u32 index)
{
	u64 value = 0;
	if (extended)
		copy_user(&value, (const void *)(extended + 160 + 16 * index), 8);
	return value;
}

/* If a word cannot be read, the rest of its page cannot either. */
static u64 add_cells(struct forced_cell *cells, u64 count, u64 from, u64 words)
{
	u64 readable_from = 0;
	for (u64 i = 0; i < words && count < FORCE_CELLS; i++) {
		struct forced_cell cell = {from + 8 * i, 0};
		if (cell.address < readable_from ||
			(cell.address >= RUNTIME_TEXT - 8 && cell.address < RUNTIME_END))
			continue;
		if (copy_user(&cell.value, (const void *)cell.address, 8))
			readable_from = PAGE_FLOOR(cell.address) + PAGE_BYTES;
		else
			cells[count++] = cell;
	}
	return count;
}

static void hash_memory(struct context *context, u64 *hash, u64 *pages)
{
	*hash = *pages = 0;
	if (!may_hash(context))
		return;
	u64 start = now_ns();
	memory_scan(context, hash, pages);
	scanned(context, start);
}

/* Adds up to `most` words of a page that have changed, from `*next` on, except what the kernel may
 * have written for others: at replay that comes later. */
static u64 add_changed_in(struct context *context, const struct busy *busy, u64 index, u64 *next,
	u64 most, struct forced_cell *cells)
{
	u64 page[PAGE_BYTES / 8], start = list_of(context)->changed[index], count = 0;
	const u64 *before = (const u64 *)(copies_of(context) + index * PAGE_BYTES);
	if (copy_user(page, (const void *)start, PAGE_BYTES))
		return 0;
	for (; *next < PAGE_BYTES / 8 && count < most; ++*next) {
		u64 address = start + 8 * *next;
		if (page[*next] != before[*next] && !is_busy(busy, address, address + 8))
			cells[count++] = (struct forced_cell){address, page[*next]};
	}
	return count;
}

/* Each page gets its part of the room first, and then what others have left. */
static u64 add_changed(
	struct context *context, const struct busy *busy, struct forced_cell *cells, u64 count)
{
	const struct page_list *list = list_of(context);
	u64 next[FORCE_PAGES] = {0}, left = minimum(CHANGED_WORDS, FORCE_CELLS - count);
	u64 part = left / (list->changed_count + 1);
	for (u64 i = 0; i < 2 * list->changed_count; i++) {
		u64 index = i % list->changed_count;
		u64 added = add_changed_in(context, busy, index, &next[index],
			i == index ? part : left, cells + count);
		count += added;
		left -= added;
	}
	return count;
}

void log_forced(struct context *context, u16 number, u8 flags)
{
	struct {
		struct forced_body body;
		u64 places[FORCE_AREAS + 2 * FORCE_CELLS];
	} event;
	struct forced_body *body = &event.body;
	struct busy busy;
	const struct force *force = &context->force;
	const struct registers *regs = &context->regs;
	u64 hash, count;
	body->regs = *regs;
	find_busy(context, &busy);
	body->stack_bytes = stack_window(context, &busy);
	body->stack_hash = stack_hash(regs->rsp, body->stack_bytes);
	body->area_count = find_areas(context, &busy, body->stack_bytes, event.places);
	body->area_hash = areas_hash(event.places, body->area_count);
	struct forced_cell *cells = (struct forced_cell *)(event.places + body->area_count);
	body->vector_hash = force->vector_hash;
	body->exceptions = force->exceptions;
	memcpy(body->vectors, force->vectors, sizeof body->vectors);
	hash_memory(context, &hash, &body->memory_pages);
	count = passage_cells(context, cells);
	for (u64 i = 0; i < force->answer.written_count; i++)
		if (!shared_overlaps(force->answer.written[i], force->answer.written[i] + 8))
			count = add_cells(cells, count, force->answer.written[i], 1);
	count = add_cells(cells, count, (regs->rsp & ~7UL) - 8 * STACK_WORDS_BELOW,
		minimum(STACK_WORDS, body->stack_bytes / 8));
	u64 frame = (regs->rbp & ~7UL) - 8 * FRAME_WORDS_BELOW;
	count = add_cells(
		cells, count, frame, (own_end(frame, frame + 8 * FRAME_WORDS) - frame) / 8);
	for (u64 i = 0; i < minimum(body->area_count, AREAS_IN_WORDS); i++)
		count = add_cells(cells, count, area_start(event.places[i]), AREA_WORDS);
	if (force->phase == PHASE_COPIED && list_of(context)->count <= PAGE_LIST_CAPACITY &&
		busy.count <= BUSY_MOST)
		count = add_changed(context, &busy, cells, count);
	remember_changes(context);
	body->cell_count = count;
	ring_event(context, EVENT_FORCED, flags, number, (i64)hash, &event,
		sizeof *body + body->area_count * 8 + count * sizeof cells[0]);
}
