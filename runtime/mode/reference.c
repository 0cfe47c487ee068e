/* Recording: logs what a program reads of a large file by reference to a stored copy, if the file
 * is under a lease of the supervisor's. The lease ensures that the file is unchanged.
 * docs/INPUTS.md argues why the bytes are those of the copy; each step of the argument is one
 * condition here. Private stack. */
#include "mode/reference.h"
#include "base/futex.h"
#include "base/shared.h"
#include "base/sys.h"
#include "base/user.h"
#include "log/request.h"
#include "log/sink.h"
#include "mode/descriptors.h"
#include "mode/moved.h"

#define ASK_BEFORE_BYTES 0x100000UL
#define COMPARED_BYTES 1024UL
#define MOST_VECTORS 64u
#define NO_PLACE (~0UL)
#define EAGAIN 11
/* Together a tenth of a second. */
#define OPEN_LOOKS 1000
#define OPEN_NAP_NS 100000UL

/* The entry of a file at one moment. */
struct lease {
	struct leased_file *file;
	u64 since;
	u8 content[32];
};

struct file {
	u64 device, inode, size;
};

/* ---- descriptors of other threads ---- */

/* Between a thread's call and the checks here, another thread may give the descriptor another file.
 * The beginnings and ends of such calls are counted: while both counts are the same, no thread is
 * in such a call. */
u32 closing_begin(const struct call *call)
{
	struct process *process = call->context->process;
	u32 effect = call->row->descriptor_effect;
	if (LIKELY(process->thread_count <= 1) ||
		(effect != DESCRIPTORS_CLOSES && effect != DESCRIPTORS_CLOSES_RANGE &&
			effect != DESCRIPTORS_DUPS_ONTO))
		return 0;
	__atomic_add_fetch(&process->closings_begun, 1, __ATOMIC_SEQ_CST);
	return 1;
}

void closing_end(struct process *process, u32 is_counted)
{
	if (UNLIKELY(is_counted))
		__atomic_add_fetch(&process->closings_ended, 1, __ATOMIC_SEQ_CST);
}

/* ~0: a thread is in such a call. */
static u64 closings(struct process *process)
{
	u64 ended = __atomic_load_n(&process->closings_ended, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&process->closings_begun, __ATOMIC_SEQ_CST) == ended ? ended : ~0UL;
}

void open_past_lease(struct call *call)
{
	u64 nap[2] = {0, OPEN_NAP_NS};
	if (!HEADER->lease_epoch || call->row->descriptor_effect != DESCRIPTORS_MAKES)
		return;
	for (u32 i = 0; i < OPEN_LOOKS && call->result == -EAGAIN; i++) {
		sys2(NR_nanosleep, nap, NULL);
		call->result = call_kernel_window(call->number, call->actual);
	}
	if (call->result == CALL_ABORTED)
		call->result = -EAGAIN;
}

/* ---- files under a lease ---- */

static u32 identify(u64 descriptor, struct file *file)
{
	u64 stat[18];
	if (sys2(NR_fstat, (u32)descriptor, stat) || ((u32)stat[3] & MODE_KIND) != MODE_REGULAR ||
		stat[6] < LEASED_LEAST_BYTES)
		return 0;
	*file = (struct file){stat[0], stat[1], stat[6]};
	return 1;
}

static struct leased_file *find(const struct file *file)
{
	struct leased_file *set = &HEADER->leased[file->inode % LEASE_SETS * LEASE_WAYS];
	for (u32 i = 0; i < LEASE_WAYS; i++)
		if (set[i].inode == file->inode && set[i].device == file->device)
			return &set[i];
	return NULL;
}

/* Returns whether leases still hold. The kernel lets a writer go on if a lease is not given up for
 * long, or if the supervisor has died. */
static u32 leases_last(void)
{
	u32 holder = __atomic_load_n(&HEADER->lease_holder, __ATOMIC_ACQUIRE);
	return holder && !(holder & THREAD_DIED) &&
	       now_ns() < __atomic_load_n(&HEADER->leases_until_ns, __ATOMIC_ACQUIRE);
}

static u64 lease_since(const struct leased_file *file)
{
	return __atomic_load_n(&file->since, __ATOMIC_ACQUIRE);
}

/* Returns whether the file was leased before the call and has kept its size since. An open that
 * reads and truncates does not wait for the holder of a lease. */
static u32 get_lease(const struct file *file, u64 epoch, struct lease *lease)
{
	lease->file = find(file);
	if (!lease->file)
		return 0;
	lease->since = lease_since(lease->file);
	memcpy(lease->content, lease->file->content, sizeof lease->content);
	return lease->since && lease->since <= epoch && lease->file->size == file->size &&
	       lease->file->inode == file->inode && lease->file->device == file->device;
}

static u32 has_lasted(const struct lease *lease)
{
	return leases_last() && lease_since(lease->file) == lease->since;
}

/* Asks for a lease, and a copy, of a file of which much is read. */
static void want_lease(struct context *context, u64 descriptor, const struct file *file, u64 bytes)
{
	struct leased_file *known = find(file);
	if (known && lease_since(known))
		return;
	if (known && __atomic_add_fetch(&known->passed, bytes, __ATOMIC_RELAXED) <
			     __atomic_load_n(&known->ask_at, __ATOMIC_RELAXED))
		return;
	if (context->process->without_leases)
		return;
	request(context, REQUEST_LEASE, (u32)descriptor, bytes, 0);
	context->process->without_leases = !find(file);
}

void reading_begin(struct context *context, struct reading *reading)
{
	struct file file;
	if (reading->most >= ASK_BEFORE_BYTES && identify(reading->arguments[0], &file)) {
		struct leased_file *known = find(&file);
		u64 most = minimum(reading->most, file.size);
		if (!known || (!lease_since(known) && known->passed + most >= known->ask_at))
			want_lease(context, reading->arguments[0], &file, most);
	}
	reading->closed_before = closings(context->process);
	reading->epoch = __atomic_load_n(&HEADER->lease_epoch, __ATOMIC_SEQ_CST);
}

/* ---- where in the file ---- */

static u32 names_offset(const struct reading *reading)
{
	switch (reading->number) {
	case NR_pread64:
	case NR_preadv: return 1;
	case NR_preadv2: return (i64)reading->arguments[3] != -1;
	}
	return 0;
}

static u64 offset_of(const struct reading *reading, i64 result)
{
	if (names_offset(reading))
		return reading->arguments[3];
	i64 now = sys3(NR_lseek, (u32)reading->arguments[0], 0, 1 /* SEEK_CUR */);
	return now < result ? NO_PLACE : (u64)(now - result);
}

/* ---- the buffers ---- */

struct buffer {
	u64 address, bytes;
};

/* Returns the number of buffers that were filled, or 0 if there are too many. The last buffer is
 * cut where the bytes end. */
static u32 filled_buffers(
	const struct reading *reading, u64 left, struct buffer buffers[MOST_VECTORS])
{
	const u64 *a = reading->arguments;
	if (reading->number == NR_read || reading->number == NR_pread64) {
		buffers[0] = (struct buffer){a[1], left};
		return 1;
	}
	u64 all = (u32)a[2];
	for (u32 i = 0; i < all && i < MOST_VECTORS; i++) {
		if (copy_user(&buffers[i], (const void *)(a[1] + i * 16), 16))
			return 0;
		buffers[i].bytes = minimum(buffers[i].bytes, left);
		left -= buffers[i].bytes;
		if (!left)
			return i + 1;
	}
	return 0;
}

static u32 same_words(const u64 *left, const u64 *right, u64 words)
{
	u64 differs = 0;
	for (u64 i = 0; i < words; i++)
		differs |= left[i] ^ right[i];
	return !differs;
}

/* Compares memory that may vanish meanwhile. */
static u32 are_same(u64 left, u64 right, u64 bytes)
{
	u64 a[COMPARED_BYTES / 8], b[COMPARED_BYTES / 8];
	while (bytes) {
		u64 piece = minimum(bytes, COMPARED_BYTES);
		a[(piece - 1) / 8] = b[(piece - 1) / 8] = 0;
		if (copy_user(a, (const void *)left, piece) ||
			copy_user(b, (const void *)right, piece) ||
			!same_words(a, b, (piece + 7) / 8))
			return 0;
		left += piece;
		right += piece;
		bytes -= piece;
	}
	return 1;
}

/* Returns whether the file has these bytes at the offset, where other threads may have moved its
 * position meanwhile. */
static u32 file_has(const struct reading *reading, u64 offset, u64 bytes,
	const struct buffer *buffers, u32 count)
{
	struct view view = {0, 0};
	u64 at = (u64)view_file(&view, (u32)reading->arguments[0], offset, bytes);
	u32 same = at != 0;
	for (u32 i = 0; i < count && same; i++) {
		same = are_same(at, buffers[i].address, buffers[i].bytes);
		at += buffers[i].bytes;
	}
	view_end(&view);
	return same;
}

/* ---- the log ---- */

static u8 *put_items(const struct lease *lease, u64 offset, const struct buffer *buffers, u32 count,
	u8 *position, const u8 *limit)
{
	const u64 size = sizeof(struct item) + sizeof(struct reference_body);
	if (count * size > (u64)(limit - position))
		return NULL;
	for (u32 i = 0; i < count; i++) {
		if (!buffers[i].bytes)
			continue;
		struct item *item = (struct item *)position;
		struct reference_body *body = (struct reference_body *)(item + 1);
		*item = (struct item){1, ITEM_REFERENCE, 0, sizeof *body, (u32)buffers[i].bytes, 0,
			buffers[i].address};
		memcpy(body->content, lease->content, sizeof body->content);
		body->offset = offset;
		offset += buffers[i].bytes;
		position += size;
	}
	return position;
}

_Static_assert(sizeof(struct reference_body) % 8 == 0, "items need no padding");

u8 *reading_refer(struct context *context, const struct reading *reading, i64 result, u8 *position,
	const u8 *limit)
{
	struct process *process = context->process;
	struct buffer buffers[MOST_VECTORS];
	struct lease lease;
	struct file file;
	u64 descriptor = (u32)reading->arguments[0];
	if (process->mixed_descriptors || !identify(descriptor, &file))
		return NULL;
	if (!get_lease(&file, reading->epoch, &lease)) {
		want_lease(context, descriptor, &file, (u64)result);
		return NULL;
	}
	u64 offset = offset_of(reading, result);
	u32 count = filled_buffers(reading, (u64)result, buffers);
	if (!count || offset > file.size || (u64)result > file.size - offset)
		return NULL;
	if (!names_offset(reading) && !owns_position(process, descriptor) &&
		!file_has(reading, offset, (u64)result, buffers, count))
		return NULL;
	if (reading->closed_before == ~0UL || closings(process) != reading->closed_before ||
		!has_lasted(&lease))
		return NULL;
	return put_items(&lease, offset, buffers, count, position, limit);
}
