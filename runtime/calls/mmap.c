/* Mappings, mostly of files. While recording, images are mapped over the text of programs. Replay
 * puts every mapping where the log has it. Private stack. */
#include "calls/mmap.h"
#include "base/interception.h"
#include "base/process_lock.h"
#include "base/shared.h"
#include "base/shared_ranges.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/unreached.h"
#include "calls/kept_back.h"
#include "calls/memory.h"
#include "calls/sharing.h"
#include "gen/numbers.h"
#include "gen/table.h"
#include "log/log.h"
#include "log/look.h"
#include "log/request.h"
#include "mode/answer.h"
#include "mode/call.h"
#include "mode/descriptors.h"
#include "mode/look.h"
#include "mode/packet_ring.h"
#include "mode/shared_file.h"

#define DESCRIPTOR_ARGUMENT 4 /* the argument of mmap whose items describe the mapping */
#define ENOMEM 12
#define ENODEV 19
#define NO_FILE (~0u)

/* ---- files and their images: record ---- */

/* Returns the first entry with this device and inode in the chain that begins at place `next`
 * (counted from 1), or NULL. A file that has changed has several. */
static const struct file_entry *entry_from(const struct file_identity *identity, u32 next)
{
	while (next) {
		const struct file_entry *entry = &HEADER->files[next - 1];
		if (entry->inode == identity->inode && entry->device == identity->device)
			return entry;
		next = entry->next;
	}
	return NULL;
}

static const struct file_entry *first_entry(const struct file_identity *identity)
{
	u32 bucket = file_bucket(identity->inode, FILE_BUCKETS);
	return entry_from(
		identity, __atomic_load_n(&HEADER->file_buckets[bucket], __ATOMIC_ACQUIRE));
}

static u32 find_file(const struct file_identity *identity)
{
	const struct file_entry *entry = first_entry(identity);
	for (; entry; entry = entry_from(identity, entry->next))
		if (entry->size == identity->size && entry->modified_ns == identity->modified_ns &&
			entry->changed_ns == identity->changed_ns)
			return (u32)(entry - HEADER->files);
	return NO_FILE;
}

static u32 is_elf(u64 descriptor)
{
	u32 magic = 0;
	return sys4(NR_pread64, descriptor, &magic, sizeof magic, 0) == sizeof magic &&
	       magic == 0x464c457f;
}

/* Neither the kernel nor the supervisor can read a file that was not opened for reading. */
static u32 is_readable(const u64 *a)
{
	i64 flags = status_flags(a[4]);
	return !(flags & O_PATH) && ((flags + 1) & 1);
}

static u32 is_writable(const u64 *a) { return (status_flags(a[4]) & 3) != 0; }

#define DEVICE_ZERO 0x105UL /* of /dev/zero */
#define STORED_FIRST 32u    /* each process's first files are stored, whatever their size */
#define SMALL_BYTES 0x20000UL
/* Such mappings always go into the log: waiting for the supervisor takes longer than a copy. */
#define TINY_BYTES 0x1000UL

/* Returns whether the content of a mapping goes into the log, as the result of a read would.
 * Programs that map thousands of small files, as git does with its objects, would otherwise wait
 * for the supervisor each time and fill its list. Of large files the list has room for the first
 * ones. */
static u32 fits_log(
	const struct process *process, const u64 *a, const struct file_identity *identity)
{
	u32 is_full = HEADER->file_count >= MAX_FILES;
	u64 bytes = PAGE_CEIL(a[1]);
	return logs() &&
	       (process->stored_count >= STORED_FIRST || is_full || bytes <= TINY_BYTES) &&
	       bytes >= a[1] && (bytes <= SMALL_BYTES || is_full) &&
	       (a[3] & MAP_TYPE) == MAP_PRIVATE && (a[2] & (PROT_READ | PROT_EXEC)) == PROT_READ &&
	       a[5] < identity->size && bytes <= PAGE_CEIL(identity->size) - a[5] &&
	       (is_full || !is_writable(a)) && !is_elf((u32)a[4]);
}

/* Returns whether replay has a copy of the file on which all changes are repeated. Then the file's
 * present content need not be stored again. */
static u32 is_followed(const u64 *a, const struct file_identity *identity)
{
	if (!logs() || ((a[3] & MAP_TYPE) == MAP_PRIVATE && !is_writable(a)) ||
		!shared_file_changes(identity->device, identity->inode))
		return 0;
	const struct file_entry *entry = first_entry(identity);
	while (entry && !entry->followed)
		entry = entry_from(identity, entry->next);
	return entry != NULL;
}

enum shown { SHOWN_STORED, SHOWN_LOGGED /* its content goes into the log */, SHOWN_FOLLOWED };

/* The stored copy of a mapped file, which the supervisor makes the first time. A trace needs only
 * copies of files with an image. */
static u32 file_of(
	struct context *context, const u64 *a, struct file_identity *identity, enum shown *shown)
{
	u64 descriptor = (u32)a[4];
	if (!identify_file(descriptor, identity, 1) || !identity->regular || !is_readable(a) ||
		(!logs() && !is_elf(descriptor)))
		return NO_FILE;
	u32 index = find_file(identity);
	if (index != NO_FILE) {
		if (!HEADER->files[index].used)
			__atomic_store_n(&HEADER->files[index].used, 1, __ATOMIC_RELAXED);
		return index;
	}
	*shown = is_followed(a, identity)		   ? SHOWN_FOLLOWED
		 : fits_log(context->process, a, identity) ? SHOWN_LOGGED
							   : SHOWN_STORED;
	if (*shown != SHOWN_STORED)
		return NO_FILE;
	context->process->stored_count++;
	i64 answer = request(context, REQUEST_FILE, descriptor, 0, 0);
	return answer < 0 || answer >= MAX_FILES ? NO_FILE : (u32)answer;
}

static i64 attach(const struct image_part *part, u64 address, u32 replace)
{
	return sys3(NR_shmat, part->segment_id, address,
		SHM_RDONLY | SHM_EXEC | (replace ? SHM_REMAP : 0));
}

/* Maps the first part of a library, and reserves room behind it for its stubs. */
static i64 map_with_room(struct process *process, u32 index, const u64 *a)
{
	const struct file_entry *file = &HEADER->files[index];
	u64 room = file->stubs.address + file->stubs.bytes - file->low;
	if (process->reservation_count >= MAX_RESERVATIONS || a[1] > file->high - file->low)
		return sys6(NR_mmap, a[0], a[1], a[2], a[3], a[4], a[5]);
	i64 base =
		sys6(NR_mmap, a[0], room, 0, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, ~0UL, 0);
	if (base < 0 && base > -4096)
		return sys6(NR_mmap, a[0], a[1], a[2], a[3], a[4], a[5]);
	i64 result = sys6(NR_mmap, (u64)base, a[1], a[2], a[3] | MAP_FIXED, a[4], a[5]);
	if (result != base) {
		sys2(NR_munmap, base, room);
		return result;
	}
	u64 used = PAGE_CEIL(a[1]);
	sys2(NR_munmap, (u64)base + used,
		(u64)base + file->stubs.address - file->low - ((u64)base + used));
	sys2(NR_munmap, (u64)base + file->stubs.address - file->low, file->stubs.bytes);
	if (attach(&file->stubs, (u64)base + file->stubs.address - file->low, 0) > 0)
		process->reservations[process->reservation_count++] =
			(struct reservation){(u64)base - file->low, index, 1};
	return result;
}

static u32 has_place_for_stubs(const struct process *process, u64 base, u32 index)
{
	for (u32 i = 0; i < process->reservation_count; i++)
		if (process->reservations[i].base == base && process->reservations[i].file == index)
			return 1;
	return 0;
}

/* Returns whether the item holds all the overlays that it counts. */
u32 holds_mapping(const struct item *item)
{
	if (!item || item->inline_bytes < mapping_bytes(0))
		return 0;
	u32 count = ((const struct mapping_body *)(item + 1))->overlay_count;
	return count <= MAX_OVERLAYS && item->inline_bytes >= mapping_bytes(count);
}

static void add_overlay(struct mapping_body *body, u64 address, const struct image_part *part)
{
	struct mapping_overlay *overlay = &body->overlays[body->overlay_count++];
	*overlay = (struct mapping_overlay){address, part->bytes, {0}};
	memcpy(overlay->content, part->content, 32);
}

_Static_assert(MAX_OVERLAYS == MAX_PARTS + 1, "all patched pages and the stubs");

/* Maps patched text over a mapping that shows exactly the original text. Fills the overlays for the
 * log. Returns whether all of it is in place. */
static u32 overlay_text(
	struct process *process, u32 index, u64 address, const u64 *a, struct mapping_body *body)
{
	const struct file_entry *file = &HEADER->files[index];
	u64 base = 0;
	u32 whole = 1;
	for (u32 i = 0; i < file->part_count; i++) {
		const struct image_part *part = &file->parts[i];
		u64 at = address + part->offset;
		if (part->text_offset != a[5] || PAGE_CEIL(a[1]) != part->text_bytes ||
			!has_place_for_stubs(process, at - part->address, index))
			continue;
		if (attach(part, at, 1) != (i64)at) {
			whole = 0;
			continue;
		}
		if ((a[2] & 7) != 5)
			sys3(NR_mprotect, at, part->bytes, a[2]);
		add_overlay(body, at, part);
		base = at - part->address;
	}
	if (!body->overlay_count)
		return 0;
	add_overlay(body, base + file->stubs.address, &file->stubs);
	return whole && unreached_hide(process, file, base, address, address + PAGE_CEIL(a[1]));
}

/* Returns whether all calls in a new mapping of code are patched. `patched`: its image lies over
 * it. */
static u32 calls_are_known(u32 index, const u64 *a, u32 patched)
{
	if (index == NO_FILE || a[2] & PROT_WRITE || (a[3] & MAP_TYPE) != MAP_PRIVATE)
		return 0;
	u32 calls = HEADER->files[index].calls;
	return calls == CALLS_NONE || (calls == CALLS_PATCHED && patched);
}

static u32 wants_room(u32 index, const u64 *a)
{
	const struct file_entry *file = index == NO_FILE ? NULL : &HEADER->files[index];
	return file && file->part_count && file->stubs.segment_id >= 0 &&
	       file->stubs.address >= file->high && a[5] == 0 && a[0] == 0 &&
	       !(a[3] & (MAP_FIXED | MAP_FIXED_NOREPLACE)) && (a[3] & MAP_TYPE) == MAP_PRIVATE;
}

static void follow(struct file_entry *file, u32 changes, u32 ordered)
{
	shared_file_note(file->device, file->inode,
		(changes ? FILE_CHANGES : 0) | (ordered ? FILE_ORDERED : 0));
	file->followed = 1;
}

/* A hint within the runtime's range is dropped, as free memory there is needed later. */
static u64 wished_address(const u64 *a)
{
	return !(a[3] & MAP_FIXED) && touches_runtime(a[0], a[1]) ? 0 : a[0];
}

static void note_code(struct context *context, u32 file, u32 calls_known)
{
	if (!calls_known)
		expect_unknown_calls(context);
	if (file != NO_FILE && !HEADER->files[file].tells_all)
		expect_untold(context, file + 1);
}

/* A program that maps a file privately, but can also write to it, may see the writes. */
static u32 may_change(const u64 *a) { return (a[3] & MAP_TYPE) == MAP_PRIVATE && is_writable(a); }

/* Maps devices and sockets, which share memory that the kernel writes at any time. Returns 0 if the
 * file is neither. */
static i64 map_strange(struct process *process, const u64 *a, const struct file_identity *identity)
{
	u64 stat[18];
	if (a[3] & MAP_ANONYMOUS || !logs() || identity->regular ||
		sys2(NR_fstat, (u32)a[4], stat) || stat[5] == DEVICE_ZERO)
		return 0;
	i64 shown = packet_ring_map(process, a);
	return shown ? shown : -ENODEV;
}

static u32 mmap_record(struct call *call)
{
	struct context *context = call->context;
	const u64 *a = call->arguments;
	struct file_identity identity = {0};
	struct mapping_body body = {{0}, 0, 0, 0, 0, {{0}}};
	u32 index = NO_FILE;
	enum shown shown = SHOWN_STORED;
	u32 shared = shared_by(a[2], a[3], a[4]);
	if (shared)
		shared_join(context);
	call_prepare(call);
	if (a[3] & MAP_FIXED) {
		note_change(context, a[0], a[1], 1);
		look_unmap(context, a[0], a[1]);
	}
	if (!(a[3] & MAP_ANONYMOUS) && (logs() || (a[3] & MAP_TYPE) == MAP_PRIVATE))
		index = file_of(context, a, &identity, &shown);
	process_lock();
	i64 strange = index == NO_FILE ? map_strange(context->process, a, &identity) : 0;
	if ((a[3] & (MAP_FIXED | MAP_FIXED_NOREPLACE)) && touches_runtime(a[0], a[1]))
		call->result = -ENOMEM;
	else if (strange)
		call->result = strange;
	else if (wants_room(index, a))
		call->result = map_with_room(context->process, index, a);
	else
		call->result = sys6(NR_mmap, wished_address(a), a[1], a[2], a[3], a[4], a[5]);
	u32 extra = 0, patched = 0;
	struct extra_item item;
	if (call->result > 0 || call->result < -4095) {
		if (shared)
			shared_note((u64)call->result, a[1]);
		if (index != NO_FILE) {
			memcpy(body.content, HEADER->files[index].content, 32);
			body.device = identity.device;
			body.inode = identity.inode;
			if ((a[3] & MAP_TYPE) != MAP_PRIVATE)
				follow(&HEADER->files[index], is_writable(a), shared);
			if (a[2] & PROT_EXEC && (a[3] & MAP_TYPE) == MAP_PRIVATE &&
				!(a[2] & PROT_WRITE))
				patched = overlay_text(
					context->process, index, (u64)call->result, a, &body);
			body.may_change = !body.overlay_count && may_change(a);
			if (body.may_change)
				follow(&HEADER->files[index], 0, 0);
			item = (struct extra_item){DESCRIPTOR_ARGUMENT, ITEM_MAPPING, 0, &body,
				mapping_bytes(body.overlay_count)};
			extra = logs();
		} else if (shown == SHOWN_FOLLOWED) {
			body.device = identity.device;
			body.inode = identity.inode;
			body.may_change = (a[3] & MAP_TYPE) == MAP_PRIVATE;
			item = (struct extra_item){
				DESCRIPTOR_ARGUMENT, ITEM_MAPPING, 0, &body, mapping_bytes(0)};
			extra = 1;
		} else if (shown == SHOWN_LOGGED) {
			item = (struct extra_item){DESCRIPTOR_ARGUMENT, ITEM_OUTPUT,
				(u64)call->result, (const void *)call->result,
				(u32)PAGE_CEIL(a[1])};
			extra = 1;
		}
		if (a[2] & PROT_EXEC)
			note_code(context, index, calls_are_known(index, a, patched));
	}
	process_unlock();
	if (traces() && !(a[3] & MAP_ANONYMOUS) && (call->result > 0 || call->result < -4095))
		look_mapped(call, index != NO_FILE);
	call_finish(call, &item, extra);
	return leave_with_result(call);
}

/* ---- replay ---- */

static i64 open_content(const u8 *content)
{
	u64 words[4];
	memcpy(words, content, sizeof words);
	return sys4(GRANT_STORED, words[0], words[1], words[2], words[3]);
}

static u32 is_unchanged(const struct process *process, const struct mapping_body *body)
{
	for (u32 i = 0; i < UNCHANGED_FILES; i++)
		if (process->unchanged[i].device == body->device &&
			process->unchanged[i].inode == body->inode)
			return process->unchanged[i].inode != 0;
	return 0;
}

/* Servers map the same few files for each request, and asking the supervisor takes longer than
 * mapping. */
static void note_unchanged(struct process *process, const struct mapping_body *body)
{
	u32 at = process->unchanged_next++ % UNCHANGED_FILES;
	process->unchanged[at].device = body->device;
	process->unchanged[at].inode = body->inode;
}

/* Opens a copy of the file that all processes share, or the stored file if nothing in the recording
 * changes it. */
i64 open_shared(struct context *context, const struct mapping_body *body)
{
	u64 content[4];
	memcpy(content, body->content, 32);
	/* Otherwise only the copy exists. */
	u32 is_known = (content[0] | content[1] | content[2] | content[3]) != 0;
	if (is_known && is_unchanged(context->process, body))
		return open_content(body->content);
	context->slot->request.arguments[3] = content[1];
	context->slot->request.arguments[4] = content[2];
	context->slot->request.arguments[5] = content[3];
	i64 answer = request(context, REQUEST_SHARED_FILE, body->device, body->inode, content[0]);
	if (answer == SHARED_FILE_UNCHANGED) {
		note_unchanged(context->process, body);
		return open_content(body->content);
	}
	if (answer)
		return -1;
	shared_file_note(body->device, body->inode, 0);
	return scratch_open(body->device, body->inode);
}

/* Maps stored content at an exact address. */
void map_content(struct context *context, u64 address, u64 bytes, u64 protection, u64 flags,
	const u8 *content, u64 offset);
void map_content(struct context *context, u64 address, u64 bytes, u64 protection, u64 flags,
	const u8 *content, u64 offset)
{
	i64 descriptor = open_content(content);
	if (descriptor < 0)
		diverge(context, WHY_MAPPING, address, (u64)descriptor);
	i64 at = sys6(
		NR_mmap, address, bytes, protection, flags | MAP_FIXED, (u64)descriptor, offset);
	sys1(NR_close, descriptor);
	if (at != (i64)address)
		diverge(context, WHY_MAPPING, address, (u64)at);
}

static void map_file(struct call *call, const struct mapping_body *body, u64 flags)
{
	const u64 *a = call->arguments;
	u64 address = (u64)call->result;
	u32 is_private = (a[3] & MAP_TYPE) == MAP_PRIVATE;
	u64 type = is_private || maps_alone() ? MAP_PRIVATE : MAP_SHARED;
	if (!is_private || body->may_change) {
		i64 descriptor = open_shared(call->context, body);
		i64 at =
			sys6(NR_mmap, address, a[1], a[2], type | MAP_FIXED, (u64)descriptor, a[5]);
		sys1(NR_close, descriptor);
		if (descriptor < 0 || at != (i64)address)
			diverge(call->context, WHY_MAPPING, address, (u64)at);
		return;
	}
	map_content(call->context, address, a[1], a[2], flags, body->content, a[5]);
	for (u32 i = 0; i < body->overlay_count; i++)
		if (!touches_runtime(body->overlays[i].address, body->overlays[i].bytes))
			map_content(call->context, body->overlays[i].address,
				body->overlays[i].bytes, i + 1 == body->overlay_count ? 5 : a[2],
				MAP_PRIVATE, body->overlays[i].content, 0);
}

/* For a trace: notes mappings of interest. These are shared mappings, in which the program stores,
 * and other mappings that it reads, unless they show a program. */
static void look_at_mapping(struct call *call, const struct mapping_body *body)
{
	u32 is_private = (call->arguments[3] & MAP_TYPE) == MAP_PRIVATE,
	    is_program = body->overlay_count != 0;
	if (is_private && !body->may_change && !is_program) {
		i64 descriptor = open_content(body->content);
		is_program = descriptor < 0 || is_elf((u64)descriptor);
		sys1(NR_close, descriptor);
	}
	if (!is_program)
		look_note(call->context, (u64)call->result, call->arguments[1], !is_private);
}

static u32 mmap_replay(struct call *call)
{
	struct context *context = call->context;
	const u64 *a = call->arguments;
	if (a[3] & MAP_FIXED)
		look_unmap(context, a[0], a[1]);
	call_prepare(call);
	u32 logged =
		call->result > 0 && call_find_item(call, ITEM_OUTPUT, DESCRIPTOR_ARGUMENT) != NULL;
	if (call->result > 0) {
		u64 address = (u64)call->result;
		u64 flags = (a[3] & (MAP_TYPE | MAP_ANONYMOUS | MAP_GROWSDOWN)) | MAP_FIXED |
			    MAP_NORESERVE;
		if ((a[3] & MAP_TYPE) == 3) /* MAP_SHARED_VALIDATE */
			flags = (flags & ~MAP_TYPE) | MAP_SHARED;
		if (maps_alone())
			flags = (flags & ~MAP_TYPE) | MAP_PRIVATE;
		if (address & (PAGE_BYTES - 1) || touches_runtime(address, a[1]))
			diverge(context, WHY_CORRUPT, address, a[1]);
		const struct item *item = call_find_item(call, ITEM_MAPPING, DESCRIPTOR_ARGUMENT);
		if (holds_mapping(item)) {
			map_file(call, (const struct mapping_body *)(item + 1),
				flags & ~MAP_ANONYMOUS);
			if (UNLIKELY(wants_whole_inputs()))
				look_at_mapping(call, (const struct mapping_body *)(item + 1));
		} else if (sys6(NR_mmap, address, a[1], a[2] | (logged ? PROT_WRITE : 0),
				   flags | MAP_ANONYMOUS, ~0UL, 0) != call->result)
			diverge(context, WHY_MAPPING, address, a[1]);
	}
	call_finish(call, NULL, 0);
	if (logged && !(a[2] & PROT_WRITE))
		sys3(NR_mprotect, (u64)call->result, a[1], a[2]);
	return leave_with_result(call);
}

u32 handle_mmap(struct call *call)
{
	u32 how = executes() ? mmap_record(call) : mmap_replay(call);
	kept_back_mapped(call);
	return how;
}
