/* The consumer's side of a recorded stream: replay only. Private stack. Cursors are private memory,
 * so a fork is a checkpoint. */
#include "log/log.h"
#include "base/debugged.h"
#include "base/futex.h"
#include "base/state.h"
#include "base/sys.h"
#include "gen/numbers.h"
#include "log/request.h"
#include "log/ring.h"
#include "mode/look.h"
#include "order/baton.h"
#include "signals/signal.h"

static u64 event_index(struct context *context) { return context->event_count; }

/* Memory of the process's own, which the supervisor writes to: a copy of the process goes on
 * reading what is there. */
static u64 map_window(u64 address, u64 bytes, u64 fixed)
{
	return sys6(NR_mmap, address, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, ~0UL,
		       0) == (i64)address;
}

static u64 own_window(struct context *context)
{
	u64 address = WINDOWS + context->region * WINDOW_BYTES;
	if (!context->window_mapped && !map_window(address, WINDOW_BYTES, MAP_FIXED))
		fail("there is no memory for a part of the recording");
	context->window_mapped = 1;
	return address;
}

/* In the first place that is free. */
static u64 large_window(u64 bytes)
{
	for (u64 address = LARGE_WINDOWS; address < RUNTIME_END; address += LARGE_WINDOW_STRIDE)
		if (map_window(address, bytes, MAP_FIXED_NOREPLACE))
			return address;
	fail("there is no memory for a large event of the recording");
}

static void leave_large(struct context *context)
{
	u64 end = PAGE_CEIL((u64)context->log_end);
	if (end > LARGE_WINDOWS) {
		u64 start = (end - 1) & ~(LARGE_WINDOW_STRIDE - 1);
		sys2(NR_munmap, start, end - start);
	}
}

/* How many bytes it has, or would need; 0: the stream has ended. */
static u64 fetch(struct context *context, u64 address, u64 room)
{
	i64 result = request(context, REQUEST_WINDOW, context->log_offset, address, room);
	return result < 0 ? 0 : (u64)context->slot->request.values[1];
}

static u32 next_window(struct context *context)
{
	u64 address = own_window(context), bytes = fetch(context, address, WINDOW_BYTES);
	if (!bytes)
		return 0;
	leave_large(context);
	if (bytes > WINDOW_BYTES) {
		address = large_window(PAGE_CEIL(bytes));
		bytes = fetch(context, address, PAGE_CEIL(bytes));
	}
	context->log = (const u8 *)address;
	context->log_end = context->log + bytes;
	return bytes != 0;
}

/* The next event, not consumed. The supervisor gives windows that end where an event ends, and
 * checked their sizes. */
const struct event *log_peek(struct context *context)
{
	if (UNLIKELY(context->log == context->log_end) && !next_window(context))
		return NULL;
	return (const struct event *)context->log;
}

void log_advance(struct context *context, const struct event *event);
void log_advance(struct context *context, const struct event *event)
{
	context->log += event->size;
	context->log_offset += event->size;
	count_event(context);
}

const struct event *log_take(struct context *context, u8 kind, u16 number)
{
	const struct event *event = log_peek(context);
	if (UNLIKELY(!event))
		end_of_stream(context);
	if (UNLIKELY(event->kind == EVENT_END))
		end_of_stream(context);
	if (UNLIKELY(event->kind != kind))
		diverge(context, WHY_KIND, event->kind, kind);
	if (UNLIKELY(event->number != number))
		diverge(context, WHY_NUMBER, event->number, number);
	log_advance(context, event);
	return event;
}

void log_stand_at(struct context *context)
{
	struct slot *slot = context->slot;
	slot->divergence.event = event_index(context);
	slot->divergence.offset = context->log_offset;
	slot->divergence.number = context->number;
	memcpy(slot->divergence.registers, &context->regs, sizeof context->regs);
}

/* Tells the supervisor what was expected and what happened; it stops everything. */
void diverge(struct context *context, u64 why, u64 expected, u64 actual)
{
	struct slot *slot = context->slot;
	log_stand_at(context);
	slot->divergence.why = why;
	slot->divergence.expected = expected;
	slot->divergence.actual = actual;
	u64 arguments[6] = {context->regs.rdi, context->regs.rsi, context->regs.rdx,
		context->regs.r10, context->regs.r8, context->regs.r9};
	memcpy(slot->divergence.arguments, arguments, sizeof arguments);
	request(context, REQUEST_DIVERGED, 0, 0, 0);
	for (;;)
		sys1(NR_exit_group, 125);
}

/* Replay: this thread runs no further. The process ends with its last thread: until they died, the
 * others may have had turns that processes sharing its memory wait for. Who first ended it decides
 * how. */
void end_process(struct context *context, u32 status)
{
	struct process *process = context->process;
	u32 first = 0;
	if (__atomic_compare_exchange_n(
		    &process->ending, &first, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		process->ending_status = status;
	end_of_stream(context);
}
