/* Replay: answers a system call from its event, once its inputs match the recorded ones. Private
 * stack. */
#include "mode/answer.h"
#include "base/stamp.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "log/items.h"
#include "log/log.h"
#include "mode/call.h"
#include "mode/referred.h"

/* Compares what the call reads with its event. Returns the position after the inputs. */
static const u8 *verify_inputs(struct call *call)
{
	struct context *context = call->context;
	u32 count = call->row->argument_count;
	const u64 *body = (const u64 *)(call->event + 1);
	if (UNLIKELY(call->event->size < sizeof(struct event) + count * 8))
		diverge(context, WHY_CORRUPT, call->event->size, count);
	for (u32 i = 0; i < count; i++)
		if (UNLIKELY(body[i] != call->arguments[i]))
			diverge(context, WHY_ARGUMENT, body[i], call->arguments[i]);
	if (!call->row->inputs_end)
		return (const u8 *)(body + count);
	struct sink sink;
	sink.mode = SINK_VERIFY;
	sink.context = context;
	sink.item = (const u8 *)(body + count);
	sink.item_end = body_end(call->event);
	sink.pointee_before = 0;
	visit_inputs(&sink, call->row, call->arguments);
	return sink.item;
}

/* Skips inputs that were compared earlier: another thread may have changed them since. */
static const u8 *skip_inputs(const struct call *call)
{
	const u8 *at = (const u8 *)(call->event + 1) + call->row->argument_count * 8,
		 *end = body_end(call->event);
	while (at + sizeof(struct item) <= end &&
		((const struct item *)at)->direction == ITEM_INPUT)
		at += sizeof(struct item) + ALIGN8(((const struct item *)at)->inline_bytes);
	return at;
}

void call_answer(struct call *call)
{
	call->event = log_take(call->context, EVENT_CALL, (u16)call->number);
	call->position =
		(u8 *)(call->context->inputs_verified ? skip_inputs(call) : verify_inputs(call));
	call->context->inputs_verified = 0;
	call->result = call->event->value;
	call->flags = call->event->flags & (u8)~EVENT_STAMPED;
}

void call_verify_early(struct call *call)
{
	const struct event *event = call->event = log_peek(call->context);
	if (!event || event->kind != EVENT_CALL || event->number != call->number || !call->row ||
		call->context->inputs_verified)
		return;
	verify_inputs(call);
	call->context->inputs_verified = 1;
}

/* Some calls (vmsplice) may write memory or only read it, and their arguments do not tell which. If
 * they only read it, the recorded bytes are there already. */
static u32 same_bytes(u64 address, const u8 *data, u64 count)
{
	u8 copy[256];
	for (u64 done = 0; done < count; done += sizeof copy) {
		u64 piece = minimum(sizeof copy, count - done);
		if (copy_user(copy, (const void *)(address + done), piece) ||
			memcmp(copy, data + done, piece))
			return 0;
	}
	return 1;
}

/* Writes to pages that the program cannot write to. A write through /proc/self/mem may have reached
 * them. */
static u32 write_forced(u64 address, const u8 *data, u64 count)
{
	i64 memory = sys0(GRANT_MEMORY);
	i64 written = memory < 0 ? -1 : sys4(NR_pwrite64, memory, data, count, address);
	if (memory >= 0)
		sys1(NR_close, memory);
	return written == (i64)count;
}

const struct item *item_at(struct context *context, const u8 *at, const u8 *end)
{
	const struct item *item = (const struct item *)at;
	const u8 *data = at + sizeof *item;
	if (UNLIKELY(data > end || data + ALIGN8(item->inline_bytes) > end))
		diverge(context, WHY_CORRUPT, data > end ? 0 : item->inline_bytes, (u64)(end - at));
	return item;
}

void item_restore(struct context *context, const struct item *item)
{
	const u8 *data = (const u8 *)(item + 1);
	u64 address = item->address, bytes = item->inline_bytes;
	if (UNLIKELY(address < RUNTIME_END && address + bytes > RUNTIME_TEXT))
		diverge(context, WHY_CORRUPT, address, 0);
	if (UNLIKELY(copy_user((void *)address, data, bytes)) &&
		!same_bytes(address, data, bytes) && !write_forced(address, data, bytes))
		diverge(context, WHY_MEMORY, address, bytes);
}

/* Copies the recorded outputs to where the kernel had put them. Their addresses were verified with
 * the inputs. */
void call_finish_answered(struct call *call)
{
	const u8 *at = call->position, *end = body_end(call->event);
	while (at < end) {
		const struct item *item = item_at(call->context, at, end);
		if (item->direction == ITEM_OUTPUT)
			item_restore(call->context, item);
		if (item->direction == ITEM_REFERENCE)
			referred_read(call->context, item);
		at = (const u8 *)(item + 1) + ALIGN8(item->inline_bytes);
	}
}

const struct item *call_find_item(struct call *call, u8 direction, u8 argument)
{
	const u8 *at = call->position, *end = body_end(call->event);
	while (at + sizeof(struct item) <= end) {
		const struct item *item = (const struct item *)at;
		if (item->direction == direction && item->argument == argument)
			return item;
		at += sizeof *item + ALIGN8(item->inline_bytes);
	}
	return NULL;
}
