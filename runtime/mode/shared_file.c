/* Files that are mapped shared and also written by calls: replay maps a scratch copy and repeats
 * the writes on it. Private stack. */
#include "mode/shared_file.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "log/log.h"
#include "mode/answer.h"
#include "mode/call.h"
#include "mode/descriptors.h"
#include "mode/moved.h"

/* The result of statx(2), as far as it is used here. */
struct file_status {
	u32 mask, block_bytes;
	u64 attributes;
	u32 links, user, group;
	u16 mode, spare;
	u64 inode, size, blocks, attributes_mask;
	struct {
		i64 seconds;
		u32 nanoseconds, spare;
	} accessed, made, changed, modified;
	u32 special_major, special_minor, device_major, device_minor;
	u64 rest[14];
};
enum {
	STATX_TYPE = 1,
	STATX_MTIME = 0x40,
	STATX_CTIME = 0x80,
	STATX_INO = 0x100,
	STATX_SIZE = 0x200,
	STATX_BTIME = 0x800
};

#define IS_REGULAR(mode) (((mode)&0170000) == 0100000)
#define NANOSECONDS(time) ((u64)(time).seconds * 1000000000UL + (time).nanoseconds)

/* Identifies a file without statx. A new file that reuses an inode is then taken for the old one.
 */
static u32 identify_without_birth(u64 descriptor, struct file_identity *identity)
{
	u64 stat[18];
	if (sys2(NR_fstat, descriptor, stat))
		return 0;
	*identity = (struct file_identity){stat[0], stat[1], stat[6],
		stat[11] * 1000000000UL + stat[12], stat[13] * 1000000000UL + stat[14],
		IS_REGULAR((u32)stat[3])};
	return 1;
}

/* Identifies a file. Times are queried only where they are needed: after a query the kernel gives
 * the next write a new time, which costs more than a short write. */
u32 identify_file(u64 descriptor, struct file_identity *identity, u32 with_times)
{
	struct file_status status;
	u32 wanted = STATX_TYPE | STATX_INO | STATX_SIZE | STATX_BTIME |
		     (with_times ? STATX_MTIME | STATX_CTIME : 0);
	if (sys5(NR_statx, descriptor, "", 0x1000 /* AT_EMPTY_PATH */, wanted, &status))
		return identify_without_birth(descriptor, identity);
	u64 device = (status.device_minor & 0xff) | status.device_major << 8 |
		     (status.device_minor & ~0xffu) << 12;
	u64 made = status.mask & STATX_BTIME && status.made.seconds > 0
			   ? NANOSECONDS(status.made) * 0x9e3779b97f4a7c15UL
			   : 0;
	*identity = (struct file_identity){device | (made & 0xffffffff00000000UL), status.inode,
		status.size, NANOSECONDS(status.modified), NANOSECONDS(status.changed),
		IS_REGULAR(status.mode)};
	return 1;
}

/* More files were noted than the table holds, so every file counts as one of them. */
static u32 is_overfull(void)
{
	return __atomic_load_n(&HEADER->shared_file_places, __ATOMIC_RELAXED) > MAX_SHARED_FILES;
}

static u32 *bucket_of(u64 inode)
{
	return &HEADER->shared_file_buckets[file_bucket(inode, SHARED_FILE_BUCKETS)];
}

static struct shared_file *find_from(u32 next, u64 device, u64 inode)
{
	for (struct shared_file *file; next; next = file->next) {
		file = &HEADER->shared_files[next - 1];
		if (file->device == device && file->inode == inode)
			return file;
	}
	return NULL;
}

static struct shared_file *find(u64 device, u64 inode)
{
	return find_from(__atomic_load_n(bucket_of(inode), __ATOMIC_ACQUIRE), device, inode);
}

/* Adds the file at the head of its bucket, unless another thread has added it meanwhile. */
static struct shared_file *enter(u64 device, u64 inode)
{
	struct header *header = HEADER;
	if (is_overfull())
		return NULL;
	u32 place = __atomic_fetch_add(&header->shared_file_places, 1, __ATOMIC_ACQ_REL),
	    *bucket = bucket_of(inode);
	if (place >= MAX_SHARED_FILES)
		return NULL;
	struct shared_file *file = &header->shared_files[place], *other;
	u32 head = __atomic_load_n(bucket, __ATOMIC_ACQUIRE);
	do {
		if ((other = find_from(head, device, inode)))
			return other;
		*file = (struct shared_file){.device = device, .inode = inode, .next = head};
	} while (!__atomic_compare_exchange_n(
		bucket, &head, place + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	__atomic_fetch_add(&header->shared_file_count, 1, __ATOMIC_RELEASE);
	return file;
}

/* Both modes: from here on writes to this file matter. */
void shared_file_note(u64 device, u64 inode, u32 how)
{
	struct shared_file *file = find(device, inode);
	if (!file)
		file = enter(device, inode);
	if (file && how & FILE_CHANGES)
		file->changes = 1;
	if (file && how & FILE_ORDERED)
		file->is_ordered = 1;
}

u32 shared_file_is(u64 device, u64 inode) { return is_overfull() || find(device, inode); }

/* Returns whether the program has changed the file, or may change it before the recording ends. */
u32 shared_file_changes(u64 device, u64 inode)
{
	struct shared_file *file = find(device, inode);
	return file ? file->changes != 0 : is_overfull();
}

/* Returns whether the descriptor was found to lead to none of these files, and has not been closed
 * since. Asking the kernel costs as much as a short write. */
static inline __attribute__((always_inline)) u32 known_apart(
	struct process *process, u64 descriptor)
{
	u32 count = __atomic_load_n(&HEADER->shared_file_count, __ATOMIC_ACQUIRE);
	if (process->apart_among != count) {
		process->apart_among = count;
		memset(process->apart, 0, sizeof process->apart);
	}
	return descriptor < LOW_DESCRIPTORS &&
	       process->apart[descriptor / 64] >> descriptor % 64 & 1;
}

static void note_apart(struct process *process, u64 descriptor)
{
	if (descriptor < LOW_DESCRIPTORS && !process->mixed_descriptors)
		process->apart[descriptor / 64] |= 1UL << descriptor % 64;
}

/* Returns whether a file may be mapped. If it is known to be, sets `file`. */
static u32 is_entered(const struct file_identity *identity, struct shared_file **file)
{
	*file = identity->regular ? find(identity->device, identity->inode) : NULL;
	return *file || (identity->regular && is_overfull());
}

/* The same for a descriptor. */
static u32 may_be_shared(struct process *process, u64 descriptor, struct file_identity *identity,
	struct shared_file **file)
{
	if (known_apart(process, descriptor) || !identify_file(descriptor, identity, 0))
		return 0;
	if (is_entered(identity, file))
		return 1;
	note_apart(process, descriptor);
	return 0;
}

/* Calls that may read or change a file other than through a mapping. For most of them it is the
 * file of argument 0. */
enum { BY_FIRST = 1, BY_OTHERS };
static const u8 moving_calls[CALL_ROW_COUNT] = {
	[NR_read] = BY_FIRST,
	[NR_readv] = BY_FIRST,
	[NR_pread64] = BY_FIRST,
	[NR_preadv] = BY_FIRST,
	[NR_preadv2] = BY_FIRST,
	[NR_write] = BY_FIRST,
	[NR_writev] = BY_FIRST,
	[NR_pwrite64] = BY_FIRST,
	[NR_pwritev] = BY_FIRST,
	[NR_pwritev2] = BY_FIRST,
	[NR_ftruncate] = BY_FIRST,
	[NR_fallocate] = BY_FIRST,
	[NR_ioctl] = BY_FIRST,
	[NR_sendfile] = BY_OTHERS,
	[NR_splice] = BY_OTHERS,
	[NR_copy_file_range] = BY_OTHERS,
	[NR_truncate] = BY_OTHERS,
	[NR_open] = BY_OTHERS,
	[NR_openat] = BY_OTHERS,
	[NR_openat2] = BY_OTHERS,
	[NR_creat] = BY_OTHERS,
};

u32 shared_file_concerns(struct process *process, u64 number, u64 first_argument)
{
	u8 by = number < CALL_ROW_COUNT ? moving_calls[number] : 0;
	return by && !(by == BY_FIRST && known_apart(process, (u32)first_argument));
}

#define NO_DESCRIPTOR (~0UL)

/* The descriptor of a file that a call changes. */
static u64 changed_by(u64 number, const u64 *arguments)
{
	if (!changes_file(number))
		return NO_DESCRIPTOR;
	return number == NR_splice || number == NR_copy_file_range ? arguments[2] : arguments[0];
}

u32 shared_file_turn(struct context *context)
{
	struct file_identity identity;
	struct shared_file *file;
	const struct registers *regs = &context->regs;
	const u64 arguments[3] = {regs->rdi, regs->rsi, regs->rdx};
	u64 descriptor = changed_by(context->number, arguments);
	return descriptor != NO_DESCRIPTOR &&
	       may_be_shared(context->process, (u32)descriptor, &identity, &file) && file &&
	       file->is_ordered;
}

static u32 truncates(const struct call *call)
{
	const u64 *a = call->arguments;
	u64 flags;
	switch (call->number) {
	case NR_creat: return 1;
	case NR_open: flags = a[1]; break;
	case NR_openat: flags = a[2]; break;
	default: /* openat2 */
		if (copy_user(&flags, (const void *)a[2], sizeof flags))
			return 0;
	}
	return (flags & 01000 /* O_TRUNC */) != 0;
}

/* The file that a successful call may have changed other than through a mapping. */
static u64 written_to(const struct call *call)
{
	u64 descriptor = changed_by(call->number, call->arguments);
	if (descriptor != NO_DESCRIPTOR)
		return descriptor;
	switch (call->number) {
	case NR_ioctl: return moved_needed(call) ? call->arguments[0] : NO_DESCRIPTOR;
	case NR_open:
	case NR_openat:
	case NR_openat2:
	case NR_creat: return truncates(call) ? (u64)call->result : NO_DESCRIPTOR;
	default: return NO_DESCRIPTOR;
	}
}

/* Returns whether the call wrote at the end of the file, whatever its offset. */
static u32 appends(const struct call *call)
{
	if (call->number == NR_pwritev2 &&
		(u32)call->arguments[5] & 0x30 /* RWF_APPEND, RWF_NOAPPEND */)
		return ((u32)call->arguments[5] & 0x10) != 0;
	return (status_flags(call->arguments[0]) & 02000 /* O_APPEND */) != 0;
}

/* Where a call changed a file that may be mapped, and how many bytes the kernel itself changed
 * there. */
struct change {
	u64 start, bytes;
};
#define TO_END (~0UL)

static struct change allocated(const u64 *a)
{
	const u64 harmless = 0x41 /* FALLOC_FL_KEEP_SIZE | UNSHARE_RANGE */,
		  moves_rest = 0x28 /* COLLAPSE_RANGE | INSERT_RANGE */;
	return (struct change){a[2], a[1] & moves_rest ? TO_END : a[1] & ~harmless ? a[3] : 0};
}

static struct change change_of(const struct call *call, u64 size)
{
	const u64 *a = call->arguments;
	u64 bytes, start;
	switch (call->number) {
	case NR_pwrite64:
	case NR_pwritev:
	case NR_pwritev2:
		if (appends(call))
			return (struct change){size - (u64)call->result, 0};
		if ((i64)a[3] >= 0)
			return (struct change){a[3], 0};
		/* fall through */
	case NR_write:
	case NR_writev:
		return (struct change){
			(u64)(sys3(NR_lseek, (u32)a[0], 0, 1 /* SEEK_CUR */) - call->result), 0};
	case NR_fallocate: return allocated(a);
	default:
		if (!moved_needed(call))
			return (struct change){0, 0};
		start = moved_to(call, &bytes);
		return (struct change){start, bytes};
	}
}

/* truncate(2) has no descriptor. */
static u32 truncated_by_name(
	const struct call *call, struct file_identity *identity, struct shared_file **file)
{
	i64 descriptor =
		sys4(NR_openat, -100L, call->arguments[0], 012000000 /* O_PATH | O_CLOEXEC */, 0);
	if (descriptor < 0)
		return 0;
	u32 known = identify_file((u64)descriptor, identity, 0);
	sys1(NR_close, descriptor);
	return known && is_entered(identity, file);
}

u32 shared_file_write(
	struct call *call, struct file_write *write, struct view *view, struct extra_item *extra)
{
	struct file_identity identity;
	struct shared_file *file;
	if (call->result < 0)
		return 0;
	u64 descriptor = written_to(call);
	if (call->number == NR_truncate
			? !truncated_by_name(call, &identity, &file)
			: descriptor == NO_DESCRIPTOR || !may_be_shared(call->context->process,
								 (u32)descriptor, &identity, &file))
		return 0;
	if (file)
		file->changes = 1;
	struct change change = change_of(call, identity.size);
	*write = (struct file_write){identity.device, identity.inode, change.start, identity.size};
	extra[0] = (struct extra_item){0, ITEM_FILE_WRITE, 0, write, sizeof *write};
	call->context->slot->ties |= TIE_FILE;
	u64 bytes = minimum(
		change.bytes, identity.size > change.start ? identity.size - change.start : 0);
	const void *now = bytes ? view_file(view, (u32)descriptor, change.start, bytes) : NULL;
	if (!now)
		return 1;
	extra[1] = (struct extra_item){0, ITEM_FILE_DATA, 0, now, (u32)bytes};
	return 2;
}

static u64 read_from(const struct call *call)
{
	switch (call->number) {
	case NR_read:
	case NR_readv:
	case NR_pread64:
	case NR_preadv:
	case NR_preadv2:
	case NR_copy_file_range:
	case NR_splice: return call->arguments[0];
	case NR_sendfile: return call->arguments[1];
	default: return NO_DESCRIPTOR;
	}
}

/* A read sees earlier stores through the file's mappings. A trace that is made from the recording
 * needs to know about it. */
u32 shared_file_read(const struct call *call, struct extra_item *extra)
{
	struct file_identity identity;
	u64 descriptor = call->result > 0 ? read_from(call) : NO_DESCRIPTOR;
	struct shared_file *file;
	if (descriptor == NO_DESCRIPTOR ||
		!may_be_shared(call->context->process, (u32)descriptor, &identity, &file) ||
		(file && !file->changes))
		return 0;
	*extra = (struct extra_item){0, ITEM_FILE_READ, 0, NULL, 0};
	return 1;
}

/* Replay: opens the scratch copy, if a process has mapped it. */
i64 scratch_open(u64 device, u64 inode) { return sys2(GRANT_SCRATCH, device, inode); }

static void write_all(i64 descriptor, u64 address, u64 bytes, u64 offset)
{
	while (bytes) {
		i64 written = sys4(NR_pwrite64, descriptor, address, bytes, offset);
		if (written <= 0)
			return;
		address += (u64)written;
		offset += (u64)written;
		bytes -= (u64)written;
	}
}

void shared_file_rewrite(struct call *call, const struct item *item)
{
	const struct file_write *write = (const struct file_write *)(item + 1);
	if (item->inline_bytes < sizeof *write)
		diverge(call->context, WHY_CORRUPT, item->inline_bytes, 0);
	i64 descriptor = scratch_open(write->device, write->inode);
	if (descriptor < 0)
		return;
	sys2(NR_ftruncate, descriptor, write->new_size);
	u64 left = (u64)call->result, offset = write->offset;
	const struct item *data = call_find_item(call, ITEM_FILE_DATA, 0);
	if (data)
		write_all(descriptor, (u64)(data + 1), data->inline_bytes, offset);
	else if (call->number == NR_write || call->number == NR_pwrite64)
		write_all(descriptor, call->arguments[1], left, offset);
	else if (call->number == NR_writev || call->number == NR_pwritev ||
		 call->number == NR_pwritev2) {
		for (u64 i = 0; i < call->arguments[2] && left; i++) {
			u64 vector[2];
			if (copy_user(vector, (const void *)(call->arguments[1] + i * 16), 16))
				break;
			u64 piece = minimum(vector[1], left);
			write_all(descriptor, vector[0], piece, offset);
			offset += piece;
			left -= piece;
		}
	}
	sys1(NR_close, descriptor);
}
