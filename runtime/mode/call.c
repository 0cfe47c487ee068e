/* Handles one system call, in record and in replay. Private stack. */
#include "mode/call.h"
#include "base/futex.h"
#include "base/shared.h"
#include "base/stamp.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "gen/table.h"
#include "log/items.h"
#include "log/ring.h"
#include "mode/answer.h"
#include "mode/console.h"
#include "mode/descriptors.h"
#include "mode/moved.h"
#include "mode/packet_ring.h"
#include "mode/record.h"
#include "mode/shared_file.h"
#include "mode/trace.h"
#include "order/baton.h"
#include "order/section.h"

_Static_assert(
	INPUT_SPACE + 2 * TURN_BYTES + STAMP_BYTES <= RING_SLACK, "what is staged is in one piece");
#define EBADF 9

void call_prepare(struct call *call)
{
	if (executes())
		prepare_record(call);
	else
		call_answer(call);
}

/* The baton changed hands during the call. Its event is staged already, so the TURN event goes
 * before it. */
void turn_before_staged(struct context *context, u64 turn, u8 **start, u8 **position)
{
	memmove(*start + TURN_BYTES, *start, (u64)(*position - *start));
	*(struct event *)*start =
		(struct event){TURN_BYTES, EVENT_TURN, TURN_IN_CALL, turn_kind(context), (i64)turn};
	*start += TURN_BYTES;
	*position += TURN_BYTES;
	ring_publish(context, *start - TURN_BYTES, TURN_BYTES);
	count_event(context);
	note_turn(context, turn);
}

const u8 call_kinds[CALL_ROW_COUNT] = {
	[NR_write] = OUTPUT,
	[NR_writev] = OUTPUT,
	[NR_pwrite64] = OUTPUT,
	[NR_pwritev] = OUTPUT,
	[NR_pwritev2] = OUTPUT,
	[NR_sendto] = OUTPUT,
	[NR_sendmsg] = OUTPUT,
	[NR_vmsplice] = OUTPUT,
	[NR_sendfile] = DESCRIPTOR,
	[NR_splice] = DESCRIPTOR,
	[NR_copy_file_range] = DESCRIPTOR,
	[NR_tee] = DESCRIPTOR,
	[NR_close] = DESCRIPTOR,
	[NR_fcntl] = DESCRIPTOR,
	[NR_dup] = DESCRIPTOR,
	[NR_dup2] = DESCRIPTOR,
	[NR_dup3] = DESCRIPTOR,
	[NR_close_range] = DESCRIPTOR,
	[NR_open] = DESCRIPTOR,
	[NR_openat] = DESCRIPTOR,
	[NR_openat2] = DESCRIPTOR,
	[NR_creat] = DESCRIPTOR,
	[NR_pidfd_getfd] = DESCRIPTOR,
	[NR_recvmsg] = DESCRIPTOR,
	[NR_recvmmsg] = DESCRIPTOR,
	[NR_kill] = SENDER,
	[NR_tkill] = SENDER,
	[NR_tgkill] = SENDER,
	[NR_rt_sigqueueinfo] = SENDER,
	[NR_rt_tgsigqueueinfo] = SENDER,
	[NR_clock_gettime] = CLOCK,
	[NR_gettimeofday] = CLOCK,
	[NR_time] = CLOCK,
};

u32 stops_itself(const struct call *call)
{
	const u64 *a = call->arguments;
	u32 of_thread = call->number == NR_tgkill || call->number == NR_rt_tgsigqueueinfo;
	u64 number = of_thread ? a[2] : a[1];
	i32 target = (i32)a[0];
	if (number != SIGSTOP && number != SIGTSTP && number != SIGTTIN && number != SIGTTOU)
		return 0;
	if (target <= 0)
		return target == 0 || -target == sys1(NR_getpgid, 0);
	return (u32)target == call->context->pid || (u32)target == call->context->tid;
}

u32 lend_baton(struct context *context)
{
	return baton_may_lend(context) && descriptor_is_soon_back(context) && baton_lend(context);
}

i64 call_execute(struct call *call)
{
	return executes() ? execute_in(call, call_kernel_window) : call->result;
}

static void emit_extra(struct context *context, const struct extra_item *extra)
{
	struct item item = {extra->argument, extra->direction, 0, extra->count, extra->count, 0,
		extra->address};
	ring_item(context, &item, extra->bytes);
}

static inline __attribute__((always_inline)) void finish_record(
	struct call *call, const struct extra_item *extra, u32 extra_count)
{
	if (traces()) {
		trace_finish(call, extra, extra_count);
		return;
	}
	struct context *context = call->context;
	u64 when = stamp_read(context);
	struct sink sink;
	sink.mode = SINK_MEASURE;
	sink.context = context;
	sink.bytes = (u64)(call->position - call->start);
	sink.position = call->position;
	sink.limit = call->start + INPUT_SPACE;
	sink.overflown = 0;
	sink.pointee_before = call->pointee_before;
	u32 visits = call->row->outputs_end && !call->outputs_by_hand;
	if (visits)
		visit_outputs(&sink, call->row, call->arguments, call->result);
	u64 size = sink.bytes, ready = (u64)(sink.position - call->start);
	if (UNLIKELY(sink.overflown))
		ready = (u64)(call->position - call->start);
	for (u32 i = 0; i < extra_count; i++)
		size += sizeof(struct item) + ALIGN8(extra[i].count);
	u32 follows = UNLIKELY(sink.overflown) || extra_count;
	u8 flags = call->flags | (u8)context->parallel |
		   stamp_put(context, follows ? (u8 *)&when : sink.position, when);
	size += stamp_bytes(flags);
	if (size > 0xfffffff0UL)
		fail("one call returned more than 4 GB");
	*(struct event *)call->start =
		(struct event){(u32)size, EVENT_CALL, flags, (u16)call->number, call->result};
	ring_publish(context, call->start, ready + (follows ? 0 : stamp_bytes(flags)));
	if (UNLIKELY(sink.overflown)) {
		sink.mode = SINK_EMIT;
		visit_outputs(&sink, call->row, call->arguments, call->result);
	}
	for (u32 i = 0; i < extra_count; i++)
		emit_extra(context, &extra[i]);
	if (follows)
		ring_write(context, &when, stamp_bytes(flags));
	count_event(context);
	if (UNLIKELY(call->flags & (CALL_CONSOLE_OUT | CALL_CONSOLE_ERR)))
		console_logged(context->process);
}

void call_finish(struct call *call, const struct extra_item *extra, u32 extra_count)
{
	if (executes())
		finish_record(call, extra, extra_count);
	else
		call_finish_answered(call);
}

static u32 writes_memory(const struct call *call)
{
	return call->result > 0 && kind_of(call->number) == OUTPUT &&
	       descriptor_use(call->context->process, call->arguments[0]) == DESCRIPTOR_MEMORY;
}

/* The item for bytes that the call has written through a file that shows the program's memory. */
static struct extra_item written_memory(const struct call *call)
{
	u64 number = call->number, address = call->arguments[3];
	u32 has_offset = number == NR_pwrite64 || number == NR_pwritev || number == NR_pwritev2;
	u32 is_one_buffer = number == NR_pwrite64 || number == NR_write;
	if (!has_offset)
		address = (u64)sys3(NR_lseek, call->arguments[0], 0, 1 /* SEEK_CUR */) -
			  (u64)call->result;
	return (struct extra_item){1, ITEM_OUTPUT, address,
		(void *)(is_one_buffer ? call->arguments[1] : address), (u32)call->result};
}

/* Finishes a recorded call whose event gets further items. */
static SELDOM void finish_with(
	struct call *call, const struct extra_item *moved, const struct view *view)
{
	struct extra_item extra[5 + PACKET_RING_ITEMS];
	u32 count = 0;
	struct file_write write;
	struct view changed = {0, 0};
	if (call->flags & (CALL_CONSOLE_OUT | CALL_CONSOLE_ERR))
		extra[count++] =
			(struct extra_item){0, ITEM_CONSOLE, 0, &call->console_sequence, 8};
	if (writes_memory(call))
		extra[count++] = written_memory(call);
	if (HEADER->shared_file_count && logs()) {
		u32 items = shared_file_write(call, &write, &changed, &extra[count]);
		count += items ? items : shared_file_read(call, &extra[count]);
	}
	if (moved)
		extra[count++] = *moved;
	if (call->context->process->seen.packet_rings_shown)
		count += packet_rings_exchange(call->context->process, &extra[count]);
	finish_record(call, extra, count);
	view_end(&changed);
	if (view)
		view_end(view);
}

u32 call_finish_emulated(struct call *call)
{
	if (UNLIKELY((HEADER->shared_file_count && shared_file_concerns(call->context->process,
							   call->number, call->arguments[0])) ||
		     call->flags & (CALL_CONSOLE_OUT | CALL_CONSOLE_ERR) || writes_memory(call) ||
		     call->context->process->seen.packet_rings_shown))
		finish_with(call, NULL, NULL);
	else
		finish_record(call, NULL, 0);
	return leave_with_result(call);
}

u32 call_finish_moved(struct call *call)
{
	struct view view = {0, 0};
	struct extra_item moved;
	finish_with(call, moved_look(call, &view, &moved) ? &moved : NULL, &view);
	return leave_with_result(call);
}

i64 call_refusal(const struct call *call)
{
	i64 error = call->row->refuse_errno;
	if (executes() && call->number == NR_ioctl && status_flags(call->arguments[0]) == -EBADF)
		return -EBADF;
	return error < 0 ? error : -error;
}

u32 answer_call(struct call *call, i64 result)
{
	call_prepare(call);
	if (executes())
		call->result = result;
	call_finish(call, NULL, 0);
	return leave_with_result(call);
}
