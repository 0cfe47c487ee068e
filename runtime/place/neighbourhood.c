/* The memory around a thread that is stopped between events: its stack, and what its registers and
 * its stack point to. It distinguishes visits of a place with the same registers, as a loop keeps
 * its state in memory. Recording chooses this memory, and replay compares it.
 *
 * Context: the private stack, or the master handler with the thread in user code. Memory that the
 * kernel may be writing now for unfinished calls of other threads is left out, because replay
 * writes it when those calls end. So is all memory of other processes. */
#include "place/neighbourhood.h"
#include "base/map_lines.h"
#include "base/shared_ranges.h"
#include "base/state.h"
#include "base/user.h"
#include "gen/table.h"
#include "log/items.h"

#define RED_ZONE 128
/* The limit for one area to leave out, also for an output whose size only the result tells. */
#define LARGEST_BUFFER 0x1000000UL
#define LIST_BUFFERS 16
/* An area is encoded as its address, a multiple of this unit, plus its number of units. */
#define AREA_UNIT 64UL
#define POINTER_UNITS 2
#define REGISTER_UNITS 16
#define LOWEST_POINTER 0x10000UL
#define HIGHEST_POINTER 0x7ffffffff000UL
#define SEEN_BITS 4096
_Static_assert(AREA_UNIT == 64, "area_start() knows it");

/* ---- unfinished calls ---- */

static void add_busy(struct busy *busy, u64 address, u64 bytes)
{
	if (address < LOWEST_POINTER || address >= HIGHEST_POINTER || !bytes)
		return;
	if (busy->count < BUSY_MOST)
		busy->ranges[busy->count] = (struct address_range){
			.start = address, .end = address + minimum(bytes, LARGEST_BUFFER)};
	busy->count++;
}

static void add_vectors(struct busy *busy, u64 list, u64 count)
{
	struct {
		u64 address, bytes;
	} buffers[LIST_BUFFERS];
	count = minimum(count, LIST_BUFFERS);
	if (copy_user(buffers, (const void *)list, count * sizeof buffers[0]))
		return;
	for (u64 i = 0; i < count; i++)
		add_busy(busy, buffers[i].address, buffers[i].bytes);
}

static void add_message(struct busy *busy, u64 address)
{
	/* The fields are: name, its length, vectors, their number, control messages, their length,
	 * flags. */
	u64 header[7];
	if (copy_user(header, (const void *)address, sizeof header))
		return;
	add_busy(busy, address, sizeof header);
	add_busy(busy, header[0], (u32)header[1]);
	add_busy(busy, header[4], header[5]);
	add_vectors(busy, header[2], header[3]);
}

static u64 largest_bytes(const struct argument_rule *rule, const u64 *arguments)
{
	switch (rule->length_rule) {
	case LENGTH_CONSTANT: return (u64)rule->element_bytes * rule->count;
	case LENGTH_ARGUMENT:
	case LENGTH_RESULT_MAX_ARGUMENT:
		return rule->element_bytes *
		       (minimum(arguments[rule->length_argument], LARGEST_BUFFER) + rule->count);
	default: return LARGEST_BUFFER;
	}
}

static void add_call(struct busy *busy, u64 number, const u64 *arguments)
{
	const struct call_row *row = find_row((u32)number, arguments);
	for (u32 i = 0; row && i < row->outputs_end; i++) {
		const struct argument_rule *rule = &row->arguments[i];
		if (rule->direction != DIRECTION_OUT && rule->direction != DIRECTION_INOUT)
			continue;
		if (rule->shape == SHAPE_IOVEC)
			add_vectors(busy, arguments[i], arguments[rule->length_argument]);
		else if (rule->shape == SHAPE_MSGHDR)
			add_message(busy, arguments[i]);
		else if (rule->shape == SHAPE_MMSGHDR)
			/* Too rare to be worth it: nothing is compared then. */
			busy->count = BUSY_MOST + 1;
		else
			add_busy(busy, arguments[i], largest_bytes(rule, arguments));
	}
}

/* Lists what unfinished calls may write. A thread that is in no call has other registers by now. */
void find_busy(struct context *context, struct busy *busy)
{
	const struct process *process = context->process;
	busy->count = 0;
	for (u32 region = 0; process->domain && region < process->region_count; region++) {
		struct registers regs;
		u64 number;
		struct context *self;
		const struct context *from = context_of(region);
		if (from == context || copy_user(&self, &from->self, 8) || self != from)
			continue;
		if (copy_user(&regs, &from->regs, sizeof regs) ||
			copy_user(&number, &from->number, 8) || regs.rax != number)
			continue;
		u64 arguments[6] = {regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9};
		add_call(busy, number, arguments);
	}
}

u32 is_busy(const struct busy *busy, u64 start, u64 end)
{
	for (u64 i = 0; i < minimum(busy->count, BUSY_MOST); i++)
		if (start < busy->ranges[i].end && end > busy->ranges[i].start)
			return 1;
	return 0;
}

/* ---- the stack ---- */

/* The end of the memory that belongs to this process alone. Memory that other processes or only the
 * kernel may write, such as the clock pages behind the stacks of some programs, differs at replay.
 */
u64 own_end(u64 from, u64 limit)
{
	u64 end = writable_end(from, limit);
	while (end > from && shared_overlaps(from, end))
		end = PAGE_FLOOR(end - 1) > from ? PAGE_FLOOR(end - 1) : from;
	return end;
}

u64 stack_window(struct context *context, const struct busy *busy)
{
	u64 start = context->regs.rsp - RED_ZONE, end = own_end(start, start + STACK_WINDOW);
	for (u64 i = 0; i < minimum(busy->count, BUSY_MOST); i++)
		if (busy->ranges[i].start >= start && busy->ranges[i].start < end)
			end = busy->ranges[i].start;
	return end - start;
}

u64 stack_hash(u64 rsp, u64 bytes)
{
	u32 faulted = 0;
	u64 hash = bytes <= STACK_WINDOW
			   ? hash_user((const void *)(rsp - RED_ZONE), bytes, &faulted)
			   : 0;
	return faulted ? 0 : hash;
}

/* ---- what is pointed to ---- */

#define AREA_WRITABLE 32UL /* beside the units, while areas are chosen */
#define MOST_CANDIDATES 2048

struct choice {
	const struct busy *busy;
	u64 stack_start, stack_end;
	/* Replay plants a jump at this address. */
	u64 place;
	u64 seen[SEEN_BITS / 64];
	u64 count, mappings;
	u64 candidates[MOST_CANDIDATES];
};

static u64 area_end(u64 area)
{
	return area_start(area) + (area & (AREA_WRITABLE - 1)) * AREA_UNIT;
}

/* Adds an area that may not exist. All candidates are checked together: reading each of them would
 * cost a signal where there is no memory, and stacks are full of other numbers. */
static void add_candidate(struct choice *choice, u64 pointer, u64 units)
{
	u64 start = (pointer - AREA_UNIT / 4) & ~(AREA_UNIT - 1), end = start + units * AREA_UNIT;
	u64 mark = (start / AREA_UNIT * 0x9e3779b97f4a7c15UL >> 32) % SEEN_BITS;
	if (pointer < LOWEST_POINTER || pointer >= HIGHEST_POINTER ||
		choice->count >= MOST_CANDIDATES || choice->seen[mark / 64] >> mark % 64 & 1)
		return;
	if ((end > RUNTIME_TEXT && start < RUNTIME_END) ||
		(end > choice->stack_start && start < choice->stack_end))
		return;
	if ((end > choice->place && start < choice->place + WATCH_PATCH_BYTES) ||
		is_busy(choice->busy, start, end) || shared_overlaps(start, end))
		return;
	choice->seen[mark / 64] |= 1UL << mark % 64;
	choice->candidates[choice->count++] = start + units;
}

/* Marks the candidates in writable memory. Other memory is the same at every visit, except that a
 * debugger of the replay has breakpoints in code. */
static void note_writable(void *closure, u64 start, u64 end)
{
	struct choice *choice = closure;
	choice->mappings++;
	for (u64 i = 0; i < choice->count; i++)
		if (area_start(choice->candidates[i]) >= start &&
			area_end(choice->candidates[i]) <= end)
			choice->candidates[i] |= AREA_WRITABLE;
}

/* A mapping of a file may extend beyond the file's end. */
static u32 is_readable(u64 area)
{
	u32 faulted = 0;
	hash_user((const void *)area_start(area), area_end(area) - area_start(area), &faulted);
	return !faulted;
}

u64 find_areas(struct context *context, const struct busy *busy, u64 stack_bytes, u64 *areas)
{
	struct choice choice = {.busy = busy,
		.stack_start = context->regs.rsp - RED_ZONE,
		.place = context->regs.rip};
	const u64 *registers = (const u64 *)&context->regs;
	u64 word, count = 0;
	choice.stack_end = choice.stack_start + stack_bytes;
	if (busy->count > BUSY_MOST)
		return 0;
	for (u32 i = 0; i < 16; i++)
		add_candidate(&choice, registers[i], REGISTER_UNITS);
	for (u64 at = (choice.stack_start + 7) & ~7UL; at + 8 <= choice.stack_end; at += 8)
		if (!copy_user(&word, (const void *)at, 8))
			add_candidate(&choice, word, POINTER_UNITS);
	walk_writable(LOWEST_POINTER, HIGHEST_POINTER, note_writable, &choice);
	for (u64 i = 0; i < choice.count && count < FORCE_AREAS; i++)
		if ((choice.candidates[i] & AREA_WRITABLE || !choice.mappings) &&
			is_readable(choice.candidates[i]))
			areas[count++] = choice.candidates[i] & ~AREA_WRITABLE;
	return count;
}

u64 areas_hash(const u64 *areas, u64 count)
{
	u64 hash = 0;
	u32 faulted = 0;
	for (u64 i = 0; i < count; i++) {
		u64 start = area_start(areas[i]), bytes = (areas[i] & (AREA_UNIT - 1)) * AREA_UNIT;
		hash = (hash ^ hash_user((const void *)start, bytes, &faulted)) *
		       0x9e3779b97f4a7c15UL;
	}
	return faulted ? 0 : hash;
}
