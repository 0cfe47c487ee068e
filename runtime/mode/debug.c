/* Replay under a debugger, which takes control of one process of the tree before any code of the
 * program has run. Private stack. */
#include "mode/debug.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "log/request.h"
#include "mode/answer.h"
#include "mode/call.h"
#include "order/baton.h"

void debug_begin(struct context *context)
{
	if (UNLIKELY(is_debugged()))
		request(context, REQUEST_DEBUG, context->event_count, 0, 0);
}

/* Returns whether replay leaves a child process out. A child's events are in its own stream, so a
 * parent that shares no memory with it does not notice. A debugger does not need all children, and
 * some may have been dropped from the recording. */
u32 debug_skips_child(struct call *call, u64 flags)
{
	if (LIKELY(!skips_processes()) || flags & 0x100 /* CLONE_VM */ ||
		shares_memory(call->context->domain))
		return 0;
	const struct item *item = call_find_item(call, ITEM_CHILD, 0);
	if (!item || item->inline_bytes != 4)
		return 0;
	return !request(call->context, REQUEST_CHILD, *(const u32 *)(item + 1), 0, 0);
}
