/* Tracing: asks the supervisor to look where no register shows what happens: at data that the
 * kernel moves between descriptors, and at files read and written through mappings
 * (crates/trace/src/look). Only where all data is wanted. A replay that makes a trace stores
 * through mappings as the program did, so mapped files can be looked at there, too. Private stack.
 */
#include "mode/look.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "log/look.h"
#include "log/request.h"
#include "mode/answer.h"
#include "mode/call.h"
#include "mode/descriptors.h"
#include "mode/moved.h"
#include "mode/shared_file.h"

/* The reasons to look at a call. */
enum { USES_FILE = 1 /* the descriptor in argument 0 */, MOVES, SYNCS, CLONES };

#define SPLICE_NONBLOCK 2u
#define MODE_SOCKET 0140000u

static const u8 look_kinds[CALL_ROW_COUNT] = {
	[NR_read] = USES_FILE,
	[NR_pread64] = USES_FILE,
	[NR_readv] = USES_FILE,
	[NR_preadv] = USES_FILE,
	[NR_preadv2] = USES_FILE,
	[NR_write] = USES_FILE,
	[NR_pwrite64] = USES_FILE,
	[NR_writev] = USES_FILE,
	[NR_pwritev] = USES_FILE,
	[NR_pwritev2] = USES_FILE,
	[NR_ftruncate] = USES_FILE,
	[NR_fallocate] = USES_FILE,
	[NR_fsync] = USES_FILE,
	[NR_fdatasync] = USES_FILE,
	[NR_sendfile] = MOVES,
	[NR_copy_file_range] = MOVES,
	[NR_splice] = MOVES,
	[NR_tee] = MOVES,
	[NR_msync] = SYNCS,
	[NR_ioctl] = CLONES,
};

static u32 wanted(void) { return HEADER->data_limit == ~0UL; }

u32 look_needed(const struct call *call)
{
	u32 kind = call->number < CALL_ROW_COUNT ? look_kinds[call->number] : 0;
	if (LIKELY(!kind) || !wanted())
		return 0;
	switch (kind) {
	case USES_FILE: return HEADER->shared_file_count != 0;
	case SYNCS: return call->context->process->looked_count != 0;
	case CLONES:
		return (u32)call->arguments[1] == CLONE_FILE ||
		       (u32)call->arguments[1] == CLONE_RANGE;
	}
	return 1;
}

static u32 file_mode(u64 descriptor, u64 *stat)
{
	return sys2(NR_fstat, (u32)descriptor, stat) ? 0 : (u32)stat[3] & MODE_KIND;
}

static u32 is_mapped(u64 descriptor)
{
	struct file_identity identity;
	return identify_file((u32)descriptor, &identity, 0) && identity.regular &&
	       shared_file_is(identity.device, identity.inode);
}

/* Data from a socket can only be read before the call consumes it. So the thread waits for the data
 * here, and the call moves no more than was seen. */
static void look_at_socket(struct call *call)
{
	const u64 *a = call->arguments;
	u32 sends = call->number == NR_sendfile, size = sends ? 3 : 4;
	u64 source = a[sends ? 1 : 0], stat[18];
	if (call->number == NR_tee || file_mode(source, stat) != MODE_SOCKET)
		return;
	struct {
		i32 descriptor;
		u16 events, revents;
	} polled = {(i32)source, 1 /* POLLIN */, 0};
	u64 arguments[6] = {(u64)&polled, 1, ~0UL, 0, 0, 0};
	u32 waits = !(status_flags(source) & O_NONBLOCK) && (sends || !(a[5] & SPLICE_NONBLOCK));
	if (waits)
		call_kernel_window(NR_poll, arguments);
	i64 seen = look_ask(call->context, LOOK_BEFORE_MOVE, 0);
	if (seen > 0)
		call->actual[size] = minimum(a[size], (u64)seen);
}

void look_before(struct call *call)
{
	const u64 *a = call->arguments;
	u32 kind = look_kinds[call->number];
	if (kind == SYNCS)
		look_ask(call->context, LOOK_BEFORE_UNMAP, 0);
	else if (HEADER->shared_file_count &&
		 (is_mapped(a[0]) ||
			 (kind == MOVES && is_mapped(a[call->number == NR_sendfile ? 1 : 2])) ||
			 (kind == CLONES && is_mapped(a[2]))))
		look_ask(call->context, LOOK_USES_MAPPED_FILE, 0);
	if (kind == MOVES)
		look_at_socket(call);
}

void look_after(struct call *call)
{
	u32 kind = look_kinds[call->number];
	if ((kind == MOVES && call->result > 0) || (kind == CLONES && call->result == 0))
		look_ask(call->context, LOOK_AFTER_MOVE, call->result);
}

void look_mapped(struct call *call, u32 is_program)
{
	const u64 *a = call->arguments;
	struct file_identity identity;
	if (!wanted() || !identify_file((u32)a[4], &identity, 0) || !identity.regular)
		return;
	u32 writes = (a[3] & MAP_TYPE) != MAP_PRIVATE && status_flags(a[4]) & 3;
	if (!writes && is_program)
		return;
	if (writes)
		shared_file_note(identity.device, identity.inode, 0);
	look_note(call->context, (u64)call->result, a[1], writes);
}

/* Before a program reads or writes a file that any process has mapped, earlier stores through the
 * mapping count as written. */
void look_replayed(struct call *call)
{
	struct context *context = call->context;
	u32 kind = call->number < CALL_ROW_COUNT ? look_kinds[call->number] : 0;
	if (kind == SYNCS && context->process->looked_count)
		request(context, REQUEST_LOOK, LOOK_BEFORE_UNMAP, 0, context->event_count - 1);
	else if (HEADER->shared_file_count && (call_find_item(call, ITEM_FILE_WRITE, 0) ||
						      call_find_item(call, ITEM_FILE_READ, 0)))
		request(context, REQUEST_LOOK, LOOK_USES_MAPPED_FILE, 0, context->event_count - 1);
}
