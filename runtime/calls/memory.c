/* Calls that change the address space. Both modes execute them. Replay puts every mapping where the
 * log has it. Private stack. */
#include "calls/memory.h"
#include "base/interception.h"
#include "base/map_lines.h"
#include "base/process_lock.h"
#include "base/shared.h"
#include "base/shared_ranges.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/unreached.h"
#include "base/user.h"
#include "calls/kept_back.h"
#include "calls/mmap.h"
#include "gen/numbers.h"
#include "log/log.h"
#include "log/look.h"
#include "mode/call.h"
#include "mode/clock.h"
#include "mode/packet_ring.h"
#include "signals/signal.h"

#define ENOMEM 12
#define EACCES 13
#define EFAULT 14
#define EINVAL 22
#define MS_ASYNC 1
/* No program break rises or falls by more at once. */
#define LARGEST_BREAK (1UL << 36)
/* The largest item. */
#define MOST_ADVISED 0x40000000UL

void note_change(struct context *context, u64 start, u64 bytes, u32 gone)
{
	unreached_touch(context, start, bytes, gone);
	clock_touch(context, start, bytes);
	if (gone && context->process->seen.packet_rings_shown)
		packet_ring_unmapped(context->process, start, bytes);
}

/* Replay: returns whether the call failed after it had done part of its work. Its range has holes,
 * and what lies around them has changed. */
static u32 changed_around_holes(const struct call *call)
{
	return call->result == -ENOMEM && call->number != NR_mremap &&
	       sys3(NR_msync, PAGE_FLOOR(call->arguments[0]), call->arguments[1], MS_ASYNC) ==
		       -ENOMEM;
}

#define MOST_PIECES 32u

/* The mappings of a range, up to its end. */
struct pieces {
	u64 start, end;
	u32 count;
	struct {
		u64 start, end;
	} of[MOST_PIECES];
};

static void add_piece(void *closure, const struct map_line *line)
{
	struct pieces *pieces = closure;
	u64 start = line->start > pieces->start ? line->start : pieces->start,
	    end = minimum(line->end, pieces->end);
	if (start >= end || pieces->count == MOST_PIECES)
		return;
	pieces->of[pieces->count].start = start;
	pieces->of[pieces->count++].end = end;
}

/* Replay: a single recorded mapping may be several, if a part of it shows a file whose bytes are in
 * the log. The kernel moves and resizes only single mappings, so this moves them one by one. */
static i64 remap_pieces(const u64 *a, u64 to)
{
	u64 kept = minimum(PAGE_CEIL(a[1]), PAGE_CEIL(a[2])), grown = PAGE_CEIL(a[2]) - kept;
	struct pieces pieces = {.start = a[0], .end = a[0] + kept, .count = 0};
	if (PAGE_CEIL(a[1]) > kept)
		sys2(NR_munmap, a[0] + kept, PAGE_CEIL(a[1]) - kept);
	walk_maps(add_piece, &pieces);
	for (u32 i = 0; i < pieces.count; i++) {
		u64 start = pieces.of[i].start, bytes = pieces.of[i].end - start;
		u64 place = to + start - a[0], more = i + 1 == pieces.count ? grown : 0;
		if (place == start && !more)
			continue;
		i64 result = sys5(NR_mremap, start, bytes, bytes + more, place == start ? 0 : 3,
			place); /* MREMAP_MAYMOVE | MREMAP_FIXED */
		if (result != (i64)place)
			return result;
	}
	return (i64)to;
}

/* `again`: replay makes the call, too, and must get the recorded result. */
static u32 repeat(struct call *call, u32 again)
{
	struct context *context = call->context;
	call_prepare(call);
	if (executes()) {
		call->result = sys6(call->number, call->actual[0], call->actual[1], call->actual[2],
			call->actual[3], call->actual[4], call->actual[5]);
	} else if (again &&
		   (call->result >= 0 || call->result < -4095 || changed_around_holes(call))) {
		i64 result = sys6(call->number, call->actual[0], call->actual[1], call->actual[2],
			call->actual[3], call->actual[4], call->actual[5]);
		if (result == -EFAULT && call->number == NR_mremap)
			result = remap_pieces(call->actual, (u64)call->result);
		if (result != call->result)
			diverge(context, WHY_RESULT, (u64)call->result, (u64)result);
	}
	call_finish(call, NULL, 0);
	return leave_with_result(call);
}

static void forget_reservations(struct process *process, u64 start, u64 bytes)
{
	for (u32 i = 0; i < process->reservation_count; i++) {
		const struct file_entry *file = &HEADER->files[process->reservations[i].file];
		u64 base = process->reservations[i].base;
		if (start > base + file->low || start + bytes <= base + file->low)
			continue;
		sys1(NR_shmdt, base + file->stubs.address);
		process->reservations[i--] = process->reservations[--process->reservation_count];
	}
}

/* Unmaps everything in the range except the runtime. */
static i64 unmap_around(u64 start, u64 bytes)
{
	u64 end = start + bytes;
	i64 result = start < RUNTIME_TEXT ? sys2(NR_munmap, start, RUNTIME_TEXT - start) : 0;
	return result == 0 && end > RUNTIME_END ? sys2(NR_munmap, RUNTIME_END, end - RUNTIME_END)
						: result;
}

static u32 munmap_around(struct call *call)
{
	call_prepare(call);
	if (executes()) {
		note_change(call->context, call->arguments[0], call->arguments[1], 1);
		call->result = unmap_around(call->arguments[0], call->arguments[1]);
		kept_back_gone(call->context->process, call->arguments[0], call->arguments[1],
			call->result);
	} else if (call->result == 0)
		unmap_around(call->arguments[0], call->arguments[1]);
	call_finish(call, NULL, 0);
	return leave_with_result(call);
}

u32 handle_munmap(struct call *call)
{
	u64 end = call->arguments[0] + call->arguments[1];
	if (call->arguments[0] <= RUNTIME_TEXT && end >= RUNTIME_END && end <= ADDRESS_END)
		return munmap_around(call);
	if (touches_runtime(call->arguments[0], call->arguments[1]))
		return answer_call(call, -EINVAL);
	if (executes()) {
		process_lock();
		forget_reservations(call->context->process, call->arguments[0], call->arguments[1]);
		note_change(call->context, call->arguments[0], call->arguments[1], 1);
		process_unlock();
	}
	u32 looked = look_unmap(call->context, call->arguments[0], call->arguments[1]),
	    how = repeat(call, 1);
	if (executes())
		kept_back_gone(call->context->process, call->arguments[0], call->arguments[1],
			call->result);
	if (looked && call->result == 0)
		look_unmapped(call->context, call->arguments[0], call->arguments[1]);
	return how;
}

static u32 lies_in(const struct image_part *part, u64 base, u64 address)
{
	return address - (base + part->address) < part->bytes;
}

static u32 holds_image(const struct process *process, u64 address)
{
	for (u32 i = 0; i < process->reservation_count; i++) {
		const struct reservation *reservation = &process->reservations[i];
		const struct file_entry *file = &HEADER->files[reservation->file];
		for (u32 part = 0; part < file->part_count; part++)
			if (lies_in(&file->parts[part], reservation->base, address))
				return 1;
	}
	return 0;
}

/* Patched text is a shared read-only attachment. A program that wants to write to its text first
 * gets a private copy of it. Other memory that cannot be written stays as it is, such as a shared
 * mapping of a file opened for reading. Returns the number of pages that are private now. */
static u64 make_private(const struct process *process, u64 start, u64 bytes)
{
	u64 end = PAGE_CEIL(start + bytes), count = 0;
	for (u64 page = PAGE_FLOOR(start); page < end; page += PAGE_BYTES) {
		u8 copy[PAGE_BYTES];
		if (!holds_image(process, page) || copy_user(copy, (const void *)page, PAGE_BYTES))
			continue;
		sys6(NR_mmap, page, PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, ~0UL, 0);
		copy_user((void *)page, copy, PAGE_BYTES);
		count++;
	}
	return count;
}

u32 handle_mprotect(struct call *call)
{
	if (touches_runtime(call->arguments[0], call->arguments[1]))
		return answer_call(call, -EINVAL);
	struct context *context = call->context;
	call_prepare(call);
	if (executes()) {
		if (call->arguments[2] & PROT_EXEC)
			expect_unknown_calls(context);
		note_change(context, call->arguments[0], call->arguments[1], 0);
		call->result = sys6(call->number, call->actual[0], call->actual[1], call->actual[2],
			call->actual[3], 0, 0);
		if (call->result == -EACCES && call->arguments[2] & PROT_WRITE &&
			make_private(context->process, call->arguments[0], call->arguments[1]))
			call->result = sys6(call->number, call->actual[0], call->actual[1],
				call->actual[2], call->actual[3], 0, 0);
	} else if ((call->result == 0 || changed_around_holes(call)) &&
		   sys6(call->number, call->actual[0], call->actual[1], call->actual[2],
			   call->actual[3], 0, 0) != call->result)
		diverge(context, WHY_MAPPING, call->arguments[0], call->arguments[1]);
	call_finish(call, NULL, 0);
	return leave_with_result(call);
}

u32 handle_pkey_mprotect(struct call *call) { return handle_mprotect(call); }
u32 handle_remap_file_pages(struct call *call) { return answer_call(call, -EINVAL); }

u32 handle_mseal(struct call *call) { return repeat(call, 1); }

u32 handle_mremap(struct call *call)
{
	const u64 *a = call->arguments;
	if (touches_runtime(a[0], a[1]) || ((a[3] & 2) && touches_runtime(a[4], a[2])))
		return answer_call(call, -EINVAL);
	if (answers()) {
		const struct event *next = log_peek(call->context);
		if (next && next->value > 0) {
			call->actual[3] = next->value == (i64)a[0] ? (a[3] & ~3UL) : (a[3] | 3);
			call->actual[4] = (u64)next->value;
		}
	} else {
		note_change(call->context, a[0], a[1], 0);
		note_change(call->context, a[4], a[3] & 2 ? a[2] : 0, 0);
		kept_back_unsure(call->context->process, a[0], a[1]);
		kept_back_unsure(call->context->process, a[4], a[3] & 2 ? a[2] : 0);
	}
	u32 looked = look_unmap(call->context, a[0], a[1]), how = repeat(call, 1);
	if (executes() && call->result > 0)
		shared_moved(a[0], a[1], (u64)call->result, a[2]);
	if (looked && call->result > 0)
		look_moved(call->context, (u64)call->result, a[2]);
	return how;
}

enum {
	MADV_DONTNEED = 4,
	MADV_FREE = 8,
	MADV_REMOVE = 9,
	MADV_DONTFORK = 10,
	MADV_DOFORK = 11,
	MADV_WIPEONFORK = 18,
	MADV_KEEPONFORK = 19,
	MADV_DONTNEED_LOCKED = 24,
	MADV_GUARD_INSTALL = 102,
	MADV_GUARD_REMOVE = 103
};

/* How far advice went that the kernel refused in the end. Mappings that are locked or show devices
 * refuse it, but the mappings before them took it. */
struct advised {
	u64 at, end, advice;
	u32 is_refused;
};

static void advise_again(void *closure, const struct map_line *line)
{
	struct advised *advised = closure;
	u64 end = minimum(line->end, advised->end);
	if (advised->is_refused || line->start > advised->at || end <= advised->at)
		return;
	if (sys3(NR_madvise, advised->at, end - advised->at, advised->advice))
		advised->is_refused = 1;
	else
		advised->at = end;
}

/* Executes advice that changes memory. If the kernel refused it half way, the changed part goes
 * into the log. */
static u32 repeat_advice(struct call *call)
{
	const u64 *a = call->actual;
	u64 start = a[0], end = a[0] + PAGE_CEIL(a[1]);
	if (answers() || start % PAGE_BYTES || end <= start)
		return repeat(call, 1);
	call_prepare(call);
	call->result = sys3(call->number, start, a[1], a[2]);
	struct advised advised = {.at = start, .end = end, .advice = a[2]};
	if (call->result == -EINVAL && logs())
		walk_maps(advise_again, &advised);
	struct extra_item done = {0, ITEM_OUTPUT, start, (const void *)start,
		(u32)minimum(advised.at - start, MOST_ADVISED)};
	call_finish(call, &done, done.count != 0);
	return leave_with_result(call);
}

/* Advice that says what children get. A debugger copies the process by forking it, and the copies
 * need all its memory. */
static u32 repeat_for_children(struct call *call)
{
	const u64 *a = call->arguments;
	struct process *process = call->context->process;
	u32 how = repeat(call, !is_debugged());
	if (executes() && call->result == 0)
		kept_back_advised(process, a[0], a[1], a[2]);
	else if (executes() && call->result == -ENOMEM)
		process->seen.hides_memory = 1; /* for a part of the range it may have been done */
	return how;
}

u32 handle_madvise(struct call *call)
{
	if (touches_runtime(call->arguments[0], call->arguments[1]))
		return answer_call(call, -EINVAL);
	if (call->arguments[2] == MADV_FREE && repeatable())
		/* The kernel frees the memory at any later time, which replay could not repeat. */
		call->actual[2] = MADV_DONTNEED;
	if (call->arguments[2] == MADV_DONTNEED || call->arguments[2] == MADV_REMOVE)
		look_unmap(call->context, call->arguments[0], call->arguments[1]);
	switch (call->arguments[2]) {
	case MADV_DONTFORK:
	case MADV_WIPEONFORK:
	case MADV_DOFORK:
	case MADV_KEEPONFORK: return repeat_for_children(call);
	case MADV_DONTNEED:
	case MADV_FREE:
	case MADV_REMOVE:
	case MADV_DONTNEED_LOCKED:
	case MADV_GUARD_INSTALL:
	case MADV_GUARD_REMOVE: return repeat_advice(call);
	}
	return repeat(call, 0);
}

/* The program break. It is the kernel's while recording. Replay emulates it, as the kernel's own
 * break lies elsewhere. */
u32 handle_brk(struct call *call)
{
	struct process *process = call->context->process;
	if (executes()) {
		u32 how = repeat(call, 0);
		kept_back_unsure(process, PAGE_CEIL((u64)call->result), LARGEST_BREAK);
		process->break_end = (u64)call->result;
		return how;
	}
	call_prepare(call);
	u64 end = (u64)call->result, old = PAGE_CEIL(process->break_end), fresh = PAGE_CEIL(end);
	if (touches_runtime(old, fresh > old ? fresh - old : 0))
		diverge(call->context, WHY_CORRUPT, end, old);
	if (process->break_end && fresh > old &&
		sys6(NR_mmap, old, fresh - old, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, ~0UL,
			0) != (i64)old)
		diverge(call->context, WHY_MAPPING, old, fresh);
	if (fresh < old)
		sys2(NR_munmap, fresh, old - fresh);
	process->break_end = end;
	call_finish(call, NULL, 0);
	call->context->regs.rax = end;
	return leave(call->context);
}
