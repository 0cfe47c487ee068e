/* Recording, where it is wanted: logs the data that a call moved between descriptors inside the
 * kernel. Replay has no use for it, but a trace made from the recording has. The runtime reads the
 * data again at its source, or else at its destination: it maps a file for that moment, and copies
 * what waits in a pipe. Data that is out of reach (a socket on both sides, a pipe that another
 * process has emptied) is left out, and the trace reports it. Private stack. */
#include "mode/moved.h"
#include "base/decimal.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "mode/call.h"
#include "mode/descriptors.h"

#define MODE_PIPE 0010000u
#define OPEN_NONBLOCK 04000
#define OPEN_CLOEXEC 02000000
/* The most that a pipe of the runtime holds. */
#define PIPE_BYTES 0x100000UL
/* The limit of one call: the kernel moves no more at once. */
#define MOST_BYTES 0x80000000UL
#define NO_PLACE (~0UL)

struct side {
	u32 descriptor;
	/* NO_PLACE: unknown. */
	u64 start;
};
struct move {
	struct side from, to;
	u64 bytes;
};

u32 moved_needed(const struct call *call)
{
	switch (call->number) {
	case NR_sendfile:
	case NR_copy_file_range:
	case NR_splice:
	case NR_tee: return 1;
	case NR_ioctl:
		return (u32)call->arguments[1] == CLONE_FILE ||
		       (u32)call->arguments[1] == CLONE_RANGE;
	default: return 0;
	}
}

/* The file offset of the bytes that a call has just passed. */
static u64 start_of(u64 descriptor, u64 pointer, u64 bytes)
{
	i64 now;
	if (!pointer)
		now = sys3(NR_lseek, (u32)descriptor, 0, 1 /* SEEK_CUR */);
	else if (copy_user(&now, (const void *)pointer, sizeof now))
		return NO_PLACE;
	return now < (i64)bytes ? NO_PLACE : (u64)now - bytes;
}

static struct side side(u64 descriptor, u64 pointer, u64 bytes)
{
	return (struct side){(u32)descriptor, start_of(descriptor, pointer, bytes)};
}

static struct move cloned(const u64 *a)
{
	struct {
		i64 source;
		u64 from, bytes, to;
	} range = {(i64)a[2], 0, 0, 0};
	u64 stat[18];
	if ((u32)a[1] == CLONE_RANGE && copy_user(&range, (const void *)a[2], sizeof range))
		return (struct move){{0, NO_PLACE}, {0, NO_PLACE}, 0};
	u64 size = sys2(NR_fstat, (u32)range.source, stat) ? 0 : stat[6],
	    rest = size > range.from ? size - range.from : 0;
	return (struct move){{(u32)range.source, range.from}, {(u32)a[0], range.to},
		range.bytes ? minimum(range.bytes, rest) : rest};
}

static struct move move_of(const struct call *call)
{
	const u64 *a = call->arguments;
	u64 bytes = (u64)call->result;
	switch (call->number) {
	case NR_sendfile:
		return (struct move){side(a[1], a[2], bytes), side(a[0], 0, bytes), bytes};
	case NR_tee: return (struct move){{(u32)a[0], NO_PLACE}, {(u32)a[1], NO_PLACE}, bytes};
	case NR_ioctl: return cloned(a);
	default: return (struct move){side(a[0], a[1], bytes), side(a[2], a[3], bytes), bytes};
	}
}

u64 moved_to(const struct call *call, u64 *bytes)
{
	struct move move = move_of(call);
	*bytes = move.bytes;
	return move.to.start;
}

/* Opens the same file or pipe for reading, with a position of its own. */
static i64 reopen(u32 descriptor)
{
	char path[32];
	return sys4(NR_openat, -100L, descriptor_link(path, descriptor),
		OPEN_NONBLOCK | OPEN_CLOEXEC, 0);
}

const void *view_file(struct view *view, u32 descriptor, u64 start, u64 bytes)
{
	u64 stat[18], skip = start & (PAGE_BYTES - 1);
	if (start == NO_PLACE || bytes > MOST_BYTES || sys2(NR_fstat, descriptor, stat) ||
		((u32)stat[3] & MODE_KIND) != MODE_REGULAR || stat[6] < start + bytes)
		return NULL;
	u32 write_only = (status_flags(descriptor) & 3) == 1;
	i64 own = write_only ? reopen(descriptor) : descriptor;
	if (own < 0)
		return NULL;
	i64 at = sys6(NR_mmap, 0, skip + bytes, PROT_READ, MAP_SHARED, (u64)own, start - skip);
	if (write_only)
		sys1(NR_close, own);
	if (at < 0)
		return NULL;
	*view = (struct view){(u64)at, skip + bytes};
	return (const void *)((u64)at + skip);
}

/* Copies the content of a pipe and leaves it there. Returns the number of bytes. */
static u64 copy_pipe(i64 pipe, void *to)
{
	i32 ends[2];
	u64 done = 0;
	if (sys2(NR_pipe2, ends, OPEN_CLOEXEC))
		return 0;
	/* If the kernel refuses, the pipe has the usual size. */
	sys3(NR_fcntl, ends[1], 1031 /* F_SETPIPE_SZ */, PIPE_BYTES);
	i64 count = sys4(NR_tee, pipe, ends[1], PIPE_BYTES, 2 /* SPLICE_F_NONBLOCK */), got = 1;
	while (count > 0 && done < (u64)count && got > 0) {
		got = sys3(NR_read, ends[0], (u64)to + done, (u64)count - done);
		done += got > 0 ? (u64)got : 0;
	}
	sys1(NR_close, ends[0]);
	sys1(NR_close, ends[1]);
	return done;
}

/* The first bytes that a pipe will deliver, or the last that were written to it. */
static const void *view_pipe(struct view *view, u32 descriptor, u64 bytes, u32 first)
{
	u64 stat[18];
	if (bytes > PIPE_BYTES || sys2(NR_fstat, descriptor, stat) ||
		((u32)stat[3] & MODE_KIND) != MODE_PIPE)
		return NULL;
	i64 pipe = reopen(descriptor);
	if (pipe < 0)
		return NULL;
	i64 at = sys6(NR_mmap, 0, PIPE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		~0UL, 0);
	u64 count = at < 0 ? 0 : copy_pipe(pipe, (void *)at);
	sys1(NR_close, pipe);
	if (at < 0)
		return NULL;
	*view = (struct view){(u64)at, PIPE_BYTES};
	return count < bytes ? NULL : (const void *)((u64)at + (first ? 0 : count - bytes));
}

u32 moved_look(const struct call *call, struct view *view, struct extra_item *extra)
{
	if (call->number == NR_ioctl ? call->result != 0 : call->result <= 0)
		return 0;
	struct move move = move_of(call);
	if (!move.bytes)
		return 0;
	const void *bytes = view_file(view, move.from.descriptor, move.from.start, move.bytes);
	if (!bytes)
		bytes = view_file(view, move.to.descriptor, move.to.start, move.bytes);
	if (!bytes)
		bytes = call->number == NR_tee
				? view_pipe(view, move.from.descriptor, move.bytes, 1)
				: view_pipe(view, move.to.descriptor, move.bytes, 0);
	if (!bytes)
		return 0;
	*extra = (struct extra_item){0, ITEM_MOVED, 0, bytes, (u32)move.bytes};
	return 1;
}

void view_end(const struct view *view)
{
	if (view->bytes)
		sys2(NR_munmap, view->start, view->bytes);
}
