/* Tracing: every call is logged whole, with the times at which it was entered and left. Nothing is
 * ordered and nothing will be repeated, so threads run in parallel. Private stack.
 *
 * Inputs are staged before the call as far as they fit in STAGE_BYTES of the ring; the rest is
 * copied once the call has returned. Nobody but another thread can have changed them by then. What
 * such a thread makes shorter between measuring and copying is filled up, what it makes longer is
 * cut: the size of an event is never wrong. */
#include "mode/trace.h"
#include "base/shared.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "log/items.h"
#include "log/ring.h"
#include "mode/call.h"

#define STAGE_BYTES 0x10000UL
/* Larger ones are copied faster behind the call, straight from where they are. */
#define STAGED_ITEM_BYTES 0x8000UL

u64 trace_clock(u32 *processor)
{
	const struct header *header = HEADER;
	struct {
		u64 seconds, nanoseconds;
	} now;
	u32 low, high, aux;
	if (UNLIKELY(!header->clock_counter)) {
		sys3(NR_getcpu, processor, NULL, NULL);
		sys2(NR_clock_gettime, 0 /* CLOCK_REALTIME */, &now);
		return now.seconds * 1000000000UL + now.nanoseconds;
	}
	__asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(aux));
	*processor = aux & 0xfff; /* as Linux sets IA32_TSC_AUX */
	u64 ticks = ((u64)high << 32 | low) - header->clock_counter;
	return header->clock_ns + (u64)((unsigned __int128)ticks * header->clock_scale >> 32);
}

void trace_prepare(struct call *call)
{
	struct context *context = call->context;
	struct slot *slot = context->slot;
	u32 count = call->row->argument_count, processor;
	call->start = ring_reserve(context, STAGE_BYTES);
	u64 *body = (u64 *)(call->start + sizeof(struct event));
	for (u32 i = 0; i < count; i++)
		slot->traced.arguments[i] = body[i] = call->arguments[i];
	struct item *item = (struct item *)(body + count);
	*item = (struct item){0, ITEM_TIMES, 0, sizeof *call->times, sizeof *call->times, 0, 0};
	call->times = (struct call_times *)(item + 1);
	struct sink sink = {.mode = SINK_INPUT,
		.context = context,
		.position = (u8 *)(call->times + 1),
		.limit = call->start + STAGE_BYTES};
	call->inputs_late = 0;
	call->times->entered_ns = trace_clock(&processor);
	slot->traced.number = call->number;
	__atomic_store_n(&slot->traced.entered_ns, call->times->entered_ns, __ATOMIC_RELEASE);
	visit_inputs(&sink, call->row, call->arguments);
	call->position = sink.position;
	call->pointee_before = sink.pointee_before;
	call->inputs_late = sink.is_late;
	call->inputs_staged = sink.staged;
}

static u64 kept_bytes(const struct sink *sink, u64 bytes)
{
	return sink->is_data ? minimum(bytes, HEADER->data_limit) : bytes;
}

static void stage(struct sink *sink, u32 argument, u64 address, u64 bytes)
{
	u64 kept = kept_bytes(sink, bytes);
	struct item *item = (struct item *)sink->position;
	u8 *data = (u8 *)(item + 1);
	if (sink->is_late || kept > STAGED_ITEM_BYTES || data + ALIGN8(kept) > sink->limit) {
		sink->is_late = 1;
		return;
	}
	if (kept)
		*(u64 *)(data + ALIGN8(kept) - 8) = 0;
	u32 faulted = copy_user(data, (const void *)address, kept) != 0;
	if (faulted)
		kept = 0;
	*item = (struct item){
		(u8)argument, ITEM_INPUT, (u16)faulted, (u32)kept, (u32)bytes, 0, address};
	sink->position = data + ALIGN8(kept);
	sink->staged++;
}

/* One byte of every page: outputs are there, but what the program says it has for input need not
 * be. */
static u32 readable(u64 address, u64 bytes)
{
	u8 byte;
	for (u64 at = address; at < address + bytes; at = PAGE_FLOOR(at) + PAGE_BYTES)
		if (copy_user(&byte, (const void *)at, 1))
			return 0;
	return 1;
}

static void emit(struct sink *sink, u32 argument, u64 address, u64 bytes, u64 kept)
{
	u64 size = sizeof(struct item) + ALIGN8(kept);
	if (size != sink->room && size + sizeof(struct item) > sink->room)
		return;
	sink->room -= size;
	struct item item = {(u8)argument, sink->direction,
		(u16)(sink->direction == ITEM_INPUT && bytes && !kept && HEADER->data_limit),
		(u32)kept, (u32)bytes, 0, address};
	ring_item(sink->context, &item, (const void *)address);
}

void sink_item(struct sink *sink, u32 argument, u64 address, u64 bytes)
{
	if (sink->mode == SINK_INPUT) {
		stage(sink, argument, address, bytes);
		return;
	}
	if (sink->staged) {
		sink->staged--;
		return;
	}
	u64 kept = kept_bytes(sink, bytes);
	if (sink->direction == ITEM_INPUT && kept && !readable(address, kept))
		kept = 0;
	if (sink->mode == SINK_MEASURE)
		sink->bytes += sizeof(struct item) + ALIGN8(kept);
	else
		emit(sink, argument, address, bytes, kept);
}

static void walk(struct call *call, struct sink *inputs, struct sink *outputs)
{
	inputs->staged = call->inputs_staged;
	inputs->direction = ITEM_INPUT;
	outputs->direction = ITEM_OUTPUT;
	outputs->pointee_before = call->pointee_before;
	if (call->inputs_late)
		visit_inputs(inputs, call->row, call->arguments);
	if (!call->outputs_by_hand) {
		outputs->room = inputs->room;
		visit_outputs(outputs, call->row, call->arguments, call->result);
		inputs->room = outputs->room;
	}
}

static void fill(struct context *context, u64 bytes)
{
	static const u64 zeros[32] = {0};
	struct item item = {0, ITEM_FILL, 0, (u32)(bytes - sizeof item), 0, 0, 0};
	ring_write(context, &item, sizeof item);
	for (bytes -= sizeof item; bytes;) {
		u64 piece = minimum(bytes, sizeof zeros);
		ring_write(context, zeros, piece);
		bytes -= piece;
	}
}

static void emit_extras(struct context *context, const struct extra_item *extra, u32 count)
{
	for (u32 i = 0; i < count; i++) {
		struct item item = {extra[i].argument, extra[i].direction, 0, extra[i].count,
			extra[i].count, 0, extra[i].address};
		ring_item(context, &item, extra[i].bytes);
	}
}

/* More than an event can say goes into no event: then only the beginnings are kept. */
#define EVENT_LIMIT 0xfffffff0UL

void trace_finish(struct call *call, const struct extra_item *extra, u32 extra_count)
{
	struct context *context = call->context;
	u32 processor;
	call->times->returned_ns = trace_clock(&processor);
	call->times->processor = processor;
	u64 staged = (u64)(call->position - call->start), extras = 0;
	struct sink inputs = {.mode = SINK_MEASURE, .context = context},
		    outputs = {.mode = SINK_MEASURE, .context = context};
	walk(call, &inputs, &outputs);
	for (u32 i = 0; i < extra_count; i++)
		extras += sizeof(struct item) + ALIGN8(extra[i].count);
	u64 data = minimum(inputs.bytes + outputs.bytes, EVENT_LIMIT - staged - extras);
	*(struct event *)call->start = (struct event){
		(u32)(staged + data + extras), EVENT_CALL, 0, (u16)call->number, call->result};
	ring_publish(context, call->start, staged);
	if (data) {
		inputs = outputs =
			(struct sink){.mode = SINK_EMIT, .context = context, .room = data};
		walk(call, &inputs, &outputs);
		if (inputs.room)
			fill(context, inputs.room);
	}
	emit_extras(context, extra, extra_count);
	__atomic_store_n(&context->slot->traced.entered_ns, 0, __ATOMIC_RELEASE);
	count_event(context);
}
