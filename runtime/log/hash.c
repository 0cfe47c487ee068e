/* The hash of a process's writable private memory. It is the same in recording and replay whenever
 * the memory is.
 *
 * The hash is a sum over pages of a hash of (address, content). Zero pages add nothing, so it does
 * not matter which of them are present. It does not matter either which pages of a file's private
 * mapping are copies already (mlock and others copy pages without changing them): all of them
 * count, except in mappings so large that reading them would take long. The hash leaves out the
 * runtime's own memory and the dead part of the current stack below the red zone. Private stack. */
#include "log/hash.h"
#include "base/map_lines.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "log/beside.h"
#include "log/log.h"
#include "log/request.h"
#include "log/ring.h"
#include "log/sink.h"

#define RED_ZONE 128
/* What the cheaper check hashes of the stack. */
#define STACK_SAMPLE 512
/* In larger private mappings of files, only changed pages count. */
#define WHOLE_FILE_BYTES 0x4000000UL

/* The kernel skips pages that were never touched: sanitizers reserve terabytes. */
#define PAGEMAP_SCAN 0xc0606610UL
#define REGION_COUNT 128
enum { PAGE_IS_FILE = 4, PAGE_IS_PRESENT = 8, PAGE_IS_SWAPPED = 16 };
struct pagemap_scan {
	u64 size, flags, start, end, walked_to, regions, region_count, most_pages, inverted, all_of,
		any_of, told;
};
struct page_region {
	u64 start, end, categories;
};

struct scan {
	u64 hash, pages;
	u64 stack_pointer;
	u64 zero_hash;
	i64 pagemap;
	/* NULL, or the list to which page hashes are added, or in which they are looked up. */
	struct page_list *list;
	/* NULL, or pages that do not count. */
	const struct places *but;
};

static u64 mix(u64 value)
{
	value ^= value >> 33;
	value *= 0xff51afd7ed558ccdUL;
	return value ^ value >> 33;
}

/* A second scan finds the pages that changed since the first. Both scans visit the pages in the
 * same order. */
static void list_page(struct page_list *list, u64 address, u64 hash)
{
	if (!list->complete) {
		if (list->count < PAGE_LIST_CAPACITY)
			list->pages[list->count] = (struct page_hash){address, hash};
		list->count++;
		return;
	}
	while (list->position < list->count && list->pages[list->position].address < address)
		list->position++;
	const struct page_hash *before = &list->pages[list->position];
	u32 same =
		list->position < list->count && before->address == address && before->hash == hash;
	if (!same && list->changed_count < FORCE_PAGES)
		list->changed[list->changed_count++] = address;
}

/* Returns whether a list has no room for what was found, so that the rest does not matter. */
static u32 is_full(const struct scan *scan)
{
	return scan->list && scan->list->count > PAGE_LIST_CAPACITY;
}

static void add_page(struct scan *scan, u64 address, u64 skip)
{
	u64 hash;
	u32 faulted = 0;
	if (scan->but && is_among(scan->but, address, address + PAGE_BYTES))
		return;
	if (skip) {
		u64 copy[PAGE_BYTES / 8];
		if (copy_user(copy, (const void *)address, PAGE_BYTES))
			return;
		memset(copy, 0, skip);
		hash = hash_user(copy, PAGE_BYTES, &faulted);
	} else
		hash = hash_user((const void *)address, PAGE_BYTES, &faulted);
	if (faulted || hash == scan->zero_hash)
		return;
	scan->hash += mix(hash ^ mix(address));
	scan->pages++;
	if (UNLIKELY(scan->list != NULL))
		list_page(scan->list, address, hash);
}

static u64 hash_of_zeros(void)
{
	u64 zeros[PAGE_BYTES / 8];
	u32 faulted = 0;
	memset(zeros, 0, sizeof zeros);
	return hash_user(zeros, sizeof zeros, &faulted);
}

/* A private mapping of a file. Pages beyond the file's end cannot be read and add nothing. */
static void add_file_range(struct scan *scan, u64 start, u64 end)
{
	for (u64 page = start; page < end && !is_full(scan); page += PAGE_BYTES)
		add_page(scan, page, 0);
}

static void add_range(struct scan *scan, u64 start, u64 end)
{
	u64 floor = start, skip = 0;
	if (scan->stack_pointer >= start && scan->stack_pointer < end) {
		floor = PAGE_FLOOR(scan->stack_pointer - RED_ZONE);
		skip = (scan->stack_pointer - RED_ZONE) & (PAGE_BYTES - 1) & ~7UL;
	}
	struct page_region regions[REGION_COUNT];
	struct pagemap_scan request = {.size = sizeof request,
		.start = floor < start ? start : floor,
		.end = end,
		.regions = (u64)regions,
		.region_count = REGION_COUNT,
		.inverted = PAGE_IS_FILE,
		.all_of = PAGE_IS_FILE,
		.any_of = PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
		.told = PAGE_IS_PRESENT};
	while (request.start < end) {
		i64 count = sys3(NR_ioctl, scan->pagemap, PAGEMAP_SCAN, &request);
		for (i64 i = 0; i < count; i++)
			for (u64 page = regions[i].start; page < regions[i].end; page += PAGE_BYTES)
				add_page(scan, page, page == floor ? skip : 0);
		if (count < 0 || request.walked_to <= request.start || is_full(scan))
			return;
		request.start = request.walked_to;
	}
}

static void add_line(void *closure, const struct map_line *line)
{
	struct scan *scan = closure;
	if (is_full(scan))
		return;
	if (line->start >= RUNTIME_TEXT && line->start < RUNTIME_END)
		return;
	if (line->permissions[0] != 'r' || line->permissions[1] != 'w' ||
		line->permissions[3] != 'p')
		return;
	u32 has_stack = scan->stack_pointer >= line->start && scan->stack_pointer < line->end;
	if (line->inode && line->end - line->start <= WHOLE_FILE_BYTES && !has_stack)
		add_file_range(scan, line->start, line->end);
	else
		add_range(scan, line->start, line->end);
}

static void scan_all(struct context *context, struct page_list *list, const struct places *but,
	u64 *hash, u64 *pages)
{
	struct scan scan = {.stack_pointer = context->regs.rsp,
		.zero_hash = hash_of_zeros(),
		.list = list,
		.but = but};
	scan.pagemap = open_own(GRANT_PAGEMAP, "/proc/self/pagemap");
	if (scan.pagemap >= 0) {
		walk_maps(add_line, &scan);
		sys1(NR_close, scan.pagemap);
	}
	*hash = scan.hash;
	*pages = scan.pages;
}

void memory_scan(struct context *context, u64 *hash, u64 *pages)
{
	scan_all(context, NULL, NULL, hash, pages);
}

void memory_list(struct context *context, struct page_list *list)
{
	u64 hash, pages;
	list->position = list->changed_count = 0;
	scan_all(context, list, NULL, &hash, &pages);
	list->complete = 1;
}

/* As much as the options say, without some places if `but` is not NULL. Sets the hash to 0 if it is
 * unknown. */
static void memory_hash(struct context *context, const struct places *but, u64 *hash, u64 *pages)
{
	u64 stack = context->regs.rsp;
	u32 faulted = 0;
	*hash = *pages = 0;
	if (checks_all_memory()) {
		scan_all(context, NULL, but, hash, pages);
	} else if (checks_memory()) {
		*hash = hash_user(&context->regs, sizeof context->regs, &faulted);
		if (!but || !is_among(but, stack, stack + STACK_SAMPLE))
			*hash ^= mix(hash_user((const void *)stack, STACK_SAMPLE, &faulted));
		if (faulted)
			*hash = 0;
	}
}

/* Without other threads' dead memory, and without what the kernel writes for them meanwhile. Others
 * that run in parallel change anything. A guest shares its memory with its parent, which changes
 * it. */
void final_hash(struct context *context, u32 ends_all, u64 *hash, u64 *pages)
{
	struct places places = {.count = 0};
	*hash = *pages = 0;
	if (!checks_memory() || context->is_guest || context->process->memory_may_differ)
		return;
	if (context->sections)
		places.unknown = context->process->thread_count > 1;
	else
		places_beside(context, &places);
	if (!places.unknown && (ends_all || !places.count))
		memory_hash(context, &places, hash, pages);
}

/* ---- hashes at intervals ---- */

/* The least number of events between two hashes. */
#define INTERVAL_EVENTS 256
/* The number of events for each page in the last hash. Hashing a page takes as long as a short
 * call. */
#define INTERVAL_EVENTS_A_PAGE 2

struct hash_body {
	u64 pages;
};

/* Other threads leave their stacks behind. */
static u32 always_ran_alone(const struct context *context)
{
	return !context->is_guest && !context->process->had_threads;
}

void hash_at_interval(struct context *context)
{
	struct hash_body body;
	u64 hash;
	u32 first = context->next_hash_event == 0;
	context->next_hash_event = context->event_count + INTERVAL_EVENTS;
	if (first || !checks_all_memory() || !always_ran_alone(context))
		return;
	memory_hash(context, NULL, &hash, &body.pages);
	if (!hash)
		/* No descriptor is free for reading the memory's pages. */
		return;
	ring_event(context, EVENT_HASH, 0, 0, (i64)hash, &body, sizeof body);
	context->next_hash_event += body.pages * INTERVAL_EVENTS_A_PAGE;
}

void hash_replay(struct context *context)
{
	u64 hash, pages;
	const struct event *event = log_take(context, EVENT_HASH, 0);
	u64 recorded = (u64)event->value;
	if (event->size < sizeof *event + sizeof(struct hash_body))
		diverge(context, WHY_CORRUPT, event->size, 0);
	memory_hash(context, NULL, &hash, &pages);
	if (recorded && hash && hash != recorded)
		diverge(context, WHY_HASH, recorded, hash);
}
