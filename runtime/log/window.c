/* The consumer's side of a recorded stream: replay only. Private stack. Cursors are in private
 * memory, so a fork is a checkpoint. */
#include "log/window.h"
#include "base/capabilities.h"
#include "base/futex.h"
#include "base/state.h"
#include "base/sys.h"
#include "gen/numbers.h"
#include "log/request.h"
#include "log/ring.h"

/* Maps private memory that the supervisor writes to. A copy of the process goes on reading what is
 * there. */
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

/* Maps the window in the first free place. */
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

/* Returns how many bytes the window has or would need; 0: the stream has ended. */
static u64 fetch(struct context *context, u64 address, u64 room)
{
	i64 result = request(context, REQUEST_WINDOW, context->log_offset, address, room);
	return result < 0 ? 0 : (u64)context->slot->request.values[1];
}

u32 log_next_window(struct context *context)
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

const struct event *log_past_binding(struct context *context)
{
	const struct event *event = (const struct event *)context->log;
	if (!settled())
		return event;
	log_consume(context, event);
	context->process->memory_may_differ = 1;
	return log_peek(context);
}
