/* System V segments of the program. Private stack. */
#include "base/interception.h"
#include "base/map_lines.h"
#include "base/shared_ranges.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/unreached.h"
#include "calls/mmap.h"
#include "calls/sharing.h"
#include "gen/numbers.h"
#include "log/log.h"
#include "log/request.h"
#include "mode/answer.h"
#include "mode/call.h"

#define EINVAL 22
#define MAX_ATTACHMENT_PARTS 32

/* The size of a segment; 0: the process may not read it and does not know. */
static u64 segment_bytes(u64 id)
{
	u64 info[14] = {0};
	sys3(NR_shmctl, id, 2 /* IPC_STAT */, info);
	return info[6]; /* shm_segsz follows the 48 bytes of ipc64_perm */
}

/* Returns whether the program wants a segment where the runtime lies. */
static u32 reaches_runtime(const u64 *a)
{
	if (!a[1])
		return 0;
	u64 bytes = segment_bytes(a[0]);
	return touches_runtime(PAGE_FLOOR(a[1]), bytes ? PAGE_CEIL(bytes) : PAGE_BYTES);
}

static void attach_recorded(struct call *call)
{
	struct context *context = call->context;
	const u64 *a = call->arguments;
	if (reaches_runtime(a)) {
		call->result = -EINVAL;
		call_finish(call, NULL, 0);
		return;
	}
	if (a[2] & SHM_EXEC)
		expect_unknown_calls(context);
	if (a[2] & SHM_REMAP)
		unreached_show(context);
	call->result = sys3(NR_shmat, a[0], a[1], a[2]);
	u64 bytes = call->result > 0 ? segment_bytes(a[0]) : 0;
	if (call->result > 0)
		shared_note((u64)call->result, bytes);
	struct mapping_body body = {{0}, 0x53595356, (u32)a[0], 1, 0, {{0}}};
	body.overlays[0].bytes = bytes;
	struct extra_item item = {0, ITEM_MAPPING, 0, &body, mapping_bytes(1)};
	call_finish(call, &item, call->result > 0);
}

/* Attaches a scratch file in the segment's place, shared and named by the segment's id. */
static void attach_replayed(struct call *call)
{
	struct context *context = call->context;
	const struct item *item = call_find_item(call, ITEM_MAPPING, 0);
	if (call->result > 0 && holds_mapping(item) &&
		((const struct mapping_body *)(item + 1))->overlay_count == 1) {
		const struct mapping_body *body = (const struct mapping_body *)(item + 1);
		u64 bytes = PAGE_CEIL(body->overlays[0].bytes);
		if (touches_runtime((u64)call->result, bytes))
			diverge(context, WHY_CORRUPT, (u64)call->result, bytes);
		context->slot->request.values[1] = (i64)bytes;
		i64 descriptor = open_shared(context, body);
		sys2(NR_ftruncate, descriptor, bytes);
		i64 at = sys6(NR_mmap, (u64)call->result, bytes,
			call->arguments[2] & SHM_RDONLY ? PROT_READ : PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_FIXED, (u64)descriptor, 0);
		sys1(NR_close, descriptor);
		if (at != call->result)
			diverge(context, WHY_MAPPING, (u64)call->result, (u64)at);
	}
	call_finish(call, NULL, 0);
}

u32 handle_shmat(struct call *call)
{
	shared_join(call->context);
	call_prepare(call);
	if (executes())
		attach_recorded(call);
	else
		attach_replayed(call);
	return leave_with_result(call);
}

struct attachment {
	u64 address, inode, device;
	u32 count;
	struct address_range parts[MAX_ATTACHMENT_PARTS];
};

/* Finds the parts of the segment that still lie where it was attached. */
static void find_attached(void *closure, const struct map_line *line)
{
	struct attachment *attachment = closure;
	if (line->permissions[3] != 's' || line->start < attachment->address ||
		line->start - attachment->address != line->offset)
		return;
	if (attachment->count == 0) {
		attachment->inode = line->inode;
		attachment->device = line->device;
	}
	if (line->inode == attachment->inode && line->device == attachment->device &&
		attachment->count < MAX_ATTACHMENT_PARTS)
		attachment->parts[attachment->count++] =
			(struct address_range){.start = line->start, .end = line->end};
}

/* Replay: unmaps the scratch file that stands for the segment. */
static void detach_again(u64 address)
{
	struct attachment attachment = {.address = address};
	walk_maps(find_attached, &attachment);
	for (u32 i = 0; i < attachment.count; i++)
		sys2(NR_munmap, attachment.parts[i].start,
			attachment.parts[i].end - attachment.parts[i].start);
}

u32 handle_shmdt(struct call *call)
{
	if (call->arguments[0] >= RUNTIME_TEXT && call->arguments[0] < RUNTIME_END)
		return answer_call(call, -EINVAL);
	call_prepare(call);
	if (executes())
		call->result = sys1(NR_shmdt, call->arguments[0]);
	else if (call->result == 0)
		detach_again(call->arguments[0]);
	call_finish(call, NULL, 0);
	return leave_with_result(call);
}
