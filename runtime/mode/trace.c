/* Tracing: logs every call whole, with the times of its entry and return. Nothing is ordered, since
 * nothing is repeated, so threads run in parallel. Private stack.
 *
 * Inputs are staged before the call as far as they fit in STAGE_BYTES of the ring, and the rest is
 * copied after the call. Only another thread can have changed them by then. If data shrinks between
 * measuring and copying, it is filled up; if it grows, it is cut. So the size of an event is never
 * wrong. */
#include "mode/trace.h"
#include "base/trace_clock.h"
#include "base/user.h"
#include "log/items.h"
#include "log/ring.h"
#include "mode/call.h"

#define STAGE_BYTES 0x10000UL

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

/* The largest event. Of larger data only the beginnings are kept. */
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
