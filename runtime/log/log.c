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

/* Two places, so that one window can be filled while the other is read. The supervisor uses the
 * segments of a long stream again and again: they stay attached. */
#define WINDOW_STRIDE 0x300000UL
#define WINDOW(context, place) \
	(REGIONS + (context)->region * REGION_STRIDE + REGION_RING + (place)*WINDOW_STRIDE)
_Static_assert(
	REGION_RING + WINDOW_PLACES * WINDOW_STRIDE <= REGION_STRIDE, "the windows have room");
#define POPULATE_FROM 0x10000UL /* fewer bytes are cheaper to fault in */
/* A window with one event that no region has room for is attached beyond all regions, in the first
 * of these places that is free. */
#define LARGE_WINDOWS (RUNTIME_TEXT + 0x1000000000UL)
#define LARGE_WINDOW_STRIDE 0x100000000UL /* an event's size has 32 bits */

static i64 attach_large(i64 segment)
{
	for (u64 address = LARGE_WINDOWS; address < RUNTIME_END; address += LARGE_WINDOW_STRIDE)
		if (sys3(NR_shmat, segment, address, 010000 /* SHM_RDONLY */) == (i64)address)
			return (i64)address;
	return -1;
}

static void detach_large(struct context *context)
{
	u64 end = (u64)context->log_end;
	if (end > LARGE_WINDOWS)
		sys1(NR_shmdt, (end - 1) & ~(LARGE_WINDOW_STRIDE - 1));
}

/* Over the window that was read before the last one. */
static i64 attach_small(struct context *context, i64 segment, u64 bytes)
{
	u32 place = context->window_place ^= 1;
	u64 address = WINDOW(context, place);
	sys1(NR_shmdt, address);
	if (sys3(NR_shmat, segment, address, 010000 /* SHM_RDONLY */ | 040000 /* SHM_REMAP */) !=
		(i64)address)
		return -1;
	context->window_segments[place] = segment + 1;
	if (bytes >= POPULATE_FROM)
		sys3(NR_madvise, address, PAGE_CEIL(bytes),
			/* A thousand faults less; older kernels refuse, and fault. */
			22 /* MADV_POPULATE_READ */);
	return (i64)address;
}

static i64 window_address(struct context *context, i64 segment, u64 bytes)
{
	if (bytes > WINDOW_STRIDE)
		return attach_large(segment);
	for (u32 place = 0; place < WINDOW_PLACES; place++)
		if (context->window_segments[place] == segment + 1) {
			context->window_place = place;
			return (i64)WINDOW(context, place);
		}
	return attach_small(context, segment, bytes);
}

static i64 attach_window(struct context *context)
{
	i64 segment = request(context, REQUEST_WINDOW, context->log_offset, 0, 0);
	u64 bytes = (u64)context->slot->request.values[1];
	if (segment < 0 || bytes == 0)
		return 0;
	detach_large(context);
	i64 address = window_address(context, segment, bytes);
	if (address < 0)
		fail("cannot attach a part of the recording");
	context->log = (const u8 *)address;
	context->log_end = context->log + bytes;
	return 1;
}

/* The next event, not consumed. The supervisor gives windows that end where an event ends, and
 * checked their sizes. */
const struct event *log_peek(struct context *context)
{
	if (UNLIKELY(context->log == context->log_end) && !attach_window(context))
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
