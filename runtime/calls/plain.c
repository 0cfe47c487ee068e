/* Handlers of calls without special treatment. Private stack. */
#include "calls/plain.h"
#include "base/state.h"
#include "base/user.h"
#include "mode/call.h"
#include "signals/signal.h"

u32 handle_with_output(struct call *call, u8 argument, u64 address, u64 bytes)
{
	struct extra_item output = {
		argument, ITEM_OUTPUT, address, (const void *)address, (u32)bytes};
	call_prepare(call);
	if (call_execute(call) == CALL_ABORTED)
		return deliver_deferred(call->context, 1);
	call_finish(call, &output, executes() && call->result == 0 && bytes);
	return leave_with_result(call);
}

u32 handle_plainly(struct call *call) { return handle_with_output(call, 0, 0, 0); }
