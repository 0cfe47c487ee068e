/* The hash of a process's writable private memory, the same in record and in replay whenever the memory is.
 *
 * A sum over pages of a hash of (address, content); zero pages add nothing, so it does not matter which of them are present. Left out: the
 * runtime's own memory, pages still shared with a file, and the dead part of the current stack below the red zone. Private stack. */
#include "../include/context.h"

#define RED_ZONE 128
#define BUFFER_BYTES 0x4000

struct scan {
	u64 hash, pages;
	u64 stack_pointer;
	u64 zero_hash;
	i64 pagemap;
	struct page_list *list; /* NULL, or where page hashes go or are looked up */
};

static u64 mix(u64 value)
{
	value ^= value >> 33;
	value *= 0xff51afd7ed558ccdUL;
	return value ^ value >> 33;
}

/* A second scan tells which pages changed since the first; both go through the pages in the same order. */
static void list_page(struct page_list *list, u64 address, u64 hash)
{
	if (!list->complete) {
		if (list->count < PAGE_LIST_CAPACITY)
			list->pages[list->count] = (struct page_hash){ address, hash };
		list->count++;
		return;
	}
	while (list->position < list->count && list->pages[list->position].address < address)
		list->position++;
	const struct page_hash *before = &list->pages[list->position];
	u32 same = list->position < list->count && before->address == address && before->hash == hash;
	if (!same && list->changed_count < PAGE_LIST_CHANGED)
		list->changed[list->changed_count++] = address;
}

static void add_page(struct scan *scan, u64 address, u64 skip)
{
	u64 hash;
	u32 faulted = 0;
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

static void add_range(struct scan *scan, u64 start, u64 end)
{
	u64 floor = start, skip = 0;
	if (scan->stack_pointer >= start && scan->stack_pointer < end) {
		floor = PAGE_FLOOR(scan->stack_pointer - RED_ZONE);
		skip = (scan->stack_pointer - RED_ZONE) & (PAGE_BYTES - 1) & ~7UL;
	}
	for (u64 page = floor < start ? start : floor; page < end;) {
		u64 entries[512];
		u64 count = minimum((end - page) / PAGE_BYTES, 512);
		i64 got = sys4(NR_pread64, scan->pagemap, entries, count * 8, page / PAGE_BYTES * 8);
		if (got <= 0)
			return;
		for (u64 i = 0; i < (u64)got / 8; i++, page += PAGE_BYTES) {
			u32 present = entries[i] >> 62 != 0, of_file = entries[i] >> 61 & 1;
			if (present && !of_file)
				add_page(scan, page, page == floor ? skip : 0);
		}
	}
}

static u64 hexadecimal(const char **text)
{
	u64 value = 0;
	for (;; (*text)++) {
		char c = **text;
		if (c >= '0' && c <= '9')
			value = value << 4 | (u64)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (u64)(c - 'a' + 10);
		else
			return value;
	}
}

static void add_line(struct scan *scan, const char *line)
{
	u64 start = hexadecimal(&line);
	line++;
	u64 end = hexadecimal(&line);
	line++;
	if (start >= RUNTIME_TEXT && start < RUNTIME_END)
		return;
	if (line[1] == 'w' && line[3] == 'p')
		add_range(scan, start, end);
}

static void scan_maps(struct scan *scan, i64 maps)
{
	char buffer[BUFFER_BYTES + 1];
	u64 held = 0;
	for (;;) {
		i64 got = sys3(NR_read, maps, buffer + held, BUFFER_BYTES - held);
		if (got <= 0)
			return;
		u64 end = held + (u64)got, line = 0;
		for (u64 i = held; i < end; i++) {
			if (buffer[i] != '\n')
				continue;
			buffer[i] = 0;
			add_line(scan, buffer + line);
			line = i + 1;
		}
		held = end - line;
		memmove(buffer, buffer + line, held);
		if (held == BUFFER_BYTES)
			return;
	}
}

static void scan_all(struct context *context, struct page_list *list, u64 *hash, u64 *pages)
{
	struct scan scan = { .stack_pointer = context->regs.rsp, .zero_hash = hash_of_zeros(), .list = list };
	i64 maps = sys4(NR_openat, -100L, "/proc/self/maps", 02000000, 0);
	scan.pagemap = sys4(NR_openat, -100L, "/proc/self/pagemap", 02000000, 0);
	if (maps >= 0 && scan.pagemap >= 0)
		scan_maps(&scan, maps);
	if (maps >= 0)
		sys1(NR_close, maps);
	if (scan.pagemap >= 0)
		sys1(NR_close, scan.pagemap);
	*hash = scan.hash;
	*pages = scan.pages;
}

void memory_scan(struct context *context, u64 *hash, u64 *pages) { scan_all(context, NULL, hash, pages); }

void memory_list(struct context *context, struct page_list *list)
{
	u64 hash, pages;
	list->position = list->changed_count = 0;
	scan_all(context, list, &hash, &pages);
	list->complete = 1;
}

void memory_hash(struct context *context, u64 *hash, u64 *pages)
{
	*hash = *pages = 0;
	if (HEADER->options & OPTION_CHECK_OFF)
		return;
	if (HEADER->options & OPTION_CHECK_FULL) {
		memory_scan(context, hash, pages);
		return;
	}
	u32 faulted = 0;
	*hash = hash_user(&context->regs, sizeof context->regs, &faulted) ^ mix(hash_user((const void *)context->regs.rsp, 512, &faulted));
	if (faulted)
		*hash = 0;
}
