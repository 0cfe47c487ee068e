/* What calls of other threads write while a process is copied by fork. Private stack.
 *
 * A thread that waits in a call has no baton, and the kernel writes the call's outputs whenever
 * they come. At replay these are written in the thread's next turn. So a copy of the memory made in
 * between may have outputs at one time and not at the other. The child therefore logs what is in
 * its memory where calls of the other threads may have written, and replay writes the same there.
 * It does not matter whether they did: the bytes are what the child had. */
#include "calls/copied.h"
#include "base/map_lines.h"
#include "base/shared.h"
#include "base/stamp.h"
#include "base/state.h"
#include "base/sys.h"
#include "gen/numbers.h"
#include "log/items.h"
#include "log/log.h"
#include "log/ring.h"
#include "mode/answer.h"
#include "mode/call.h"
#include "order/baton.h"
#include "signals/signal.h"

/* The most bytes that are logged of all threads. Only the beginnings of larger outputs are. */
#define MOST_BYTES 0x400000UL
/* What the sink may write behind the last item. */
#define SLACK 64UL

/* The thread was in the parent when it was copied, unless it is an ancestor's. */
static u32 was_beside(const struct context *context, const struct context *one, u32 parent)
{
	return one != context && one->self == one && one->pid == parent && !one->exiting &&
	       (one->thread_alive || !one->is_thread);
}

u32 copied_beside_others(const struct context *context, u32 parent)
{
	if (!context->process->had_threads)
		return 0;
	for (u32 i = 0; i < context->process->region_count; i++)
		if (was_beside(context, context_of(i), parent))
			return 1;
	return 0;
}

static void visit_others(struct sink *sink, const struct context *context, u32 parent)
{
	for (u32 i = 0; i < context->process->region_count; i++) {
		struct context *one = context_of(i);
		struct call call;
		if (!was_beside(context, one, parent))
			continue;
		call_begin(&call, one);
		sink->pointee_before = MOST_BYTES;
		if (call.row)
			visit_begun(sink, call.row, call.arguments);
	}
}

void copied_log(
	struct context *context, u32 parent, struct event event, const void *body, u64 body_bytes)
{
	i64 staged = sys6(NR_mmap, 0, MOST_BYTES + SLACK, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct sink sink = {.mode = SINK_MEASURE, .context = context};
	if (staged > 0) {
		sink.position = (u8 *)staged;
		sink.limit = sink.position + MOST_BYTES;
		hold_signals(context); /* arguments may be addresses that cannot be read */
		visit_others(&sink, context, parent);
		hold_all_signals(context);
	}
	u64 items = staged > 0 ? (u64)(sink.position - (u8 *)staged) : 0, stamp;
	event.flags = stamp_put(context, (u8 *)&stamp, stamp_read(context));
	event.size = (u32)(sizeof event + body_bytes + items + stamp_bytes(event.flags));
	ring_write(context, &event, sizeof event);
	ring_write(context, body, body_bytes);
	if (items)
		ring_write(context, (const void *)staged, items);
	ring_write(context, &stamp, stamp_bytes(event.flags));
	count_event(context);
	if (staged > 0)
		sys2(NR_munmap, staged, MOST_BYTES + SLACK);
}

/* ---- replay ---- */

struct place {
	u64 address;
	u32 is_shared;
};

static void look_at_line(void *closure, const struct map_line *line)
{
	struct place *place = closure;
	if (line->start <= place->address && place->address < line->end)
		place->is_shared = line->permissions[3] == 's';
}

/* Returns whether other processes would see what is written there. */
static u32 is_shared(const struct context *context, u64 address)
{
	struct place place = {address, 0};
	if (shares_memory(context->process->domain) || shares_memory(context->domain))
		walk_maps(look_at_line, &place);
	return place.is_shared;
}

void copied_restore(struct context *context, const u8 *at, const u8 *end)
{
	while (at < end) {
		const struct item *item = item_at(context, at, end);
		if (!is_shared(context, item->address))
			item_restore(context, item);
		at = (const u8 *)(item + 1) + ALIGN8(item->inline_bytes);
	}
}
