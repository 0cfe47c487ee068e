/* Record: the first steps of a call, inlined where nearly every call that is not plain needs them.
 */
#ifndef RETAKE_MODE_RECORD_H
#define RETAKE_MODE_RECORD_H
#include "base/stamp.h"
#include "log/items.h"
#include "log/ring.h"
#include "mode/call.h"
#include "mode/console.h"
#include "mode/descriptors.h"
#include "mode/trace.h"
#include "order/baton.h"
#include "order/observe.h"

static inline __attribute__((always_inline)) void prepare_record(struct call *call)
{
	if (traces()) {
		trace_prepare(call);
		return;
	}
	u32 count = call->row->argument_count;
	call->start = ring_reserve(call->context, INPUT_SPACE + TURN_BYTES + STAMP_BYTES);
	u64 *body = (u64 *)(call->start + sizeof(struct event));
	for (u32 i = 0; i < count; i++)
		body[i] = call->arguments[i];
	call->position = (u8 *)(body + count);
	if (!call->row->inputs_end)
		return;
	struct sink sink;
	sink.mode = SINK_INPUT;
	sink.context = call->context;
	sink.position = call->position;
	sink.limit = call->start + INPUT_SPACE;
	sink.pointee_before = 0;
	visit_inputs(&sink, call->row, call->arguments);
	call->position = sink.position;
	call->pointee_before = sink.pointee_before;
}

static inline u32 reaches_console(const struct call *call)
{
	return kind_of(call->number) == OUTPUT &&
	       descriptor_use(call->context->process, call->arguments[0]);
}

typedef i64 window_function(u64 number, const u64 *arguments);

static inline __attribute__((always_inline)) i64 execute_in(
	struct call *call, window_function *window)
{
	u32 console = UNLIKELY(reaches_console(call)) ? console_lock(call) : 0;
	u32 parallel = call->context->parallel,
	    gives_baton = call->row->may_wait && !parallel && call->context->process->domain &&
			  (kind_of(call->number) != SENDER || stops_itself(call)),
	    lends = gives_baton && lends_baton(call->context);
	u64 turn;
	if (gives_baton && !lends)
		baton_release(call->context);
	call->result = window(call->number, call->actual);
	if (UNLIKELY(parallel))
		call_is_made(call->context);
	if (UNLIKELY(console))
		console_unlock(call, console);
	if (gives_baton && (lends ? baton_take_back(call->context, &turn)
				  : baton_acquire(call->context, &turn)))
		turn_before_staged(call->context, turn, &call->start, &call->position);
	return call->result;
}

#endif
