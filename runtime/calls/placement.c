/* Calls that set or query where threads may run. Private stack. */
#include "base/state.h"
#include "calls/plain.h"
#include "mode/call.h"
#include "order/home.h"

u32 handle_sched_setaffinity(struct call *call)
{
	home_set_free(call->context, 0);
	call->context->process->is_placed = executes();
	return handle_plainly(call);
}

u32 handle_sched_getaffinity(struct call *call)
{
	u32 asked = (u32)call->arguments[0];
	home_set_free(call->context, asked ? asked : call->context->tid);
	return handle_plainly(call);
}
