/* Calls the function for the handler that a row of the table names. Private stack. */
#include "calls/custom.h"
#include "base/futex.h"
#include "mode/call.h"

#define HANDLER_CASE(name) \
	case HANDLER_##name: return handle_##name(call);

u32 handle_custom(struct call *call)
{
	switch (call->row->handler) {
		CUSTOM_HANDLERS(HANDLER_CASE)
	}
	fail("the table names a handler that is not there");
}
