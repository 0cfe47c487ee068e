/* Replay: the start of a thread that comes from an image of the recorded process. Its context has
 * the program's registers. Private stack. */
#include "base/capabilities.h"
#include "base/interception.h"
#include "base/leave.h"
#include "base/state.h"
#include "calls/kept_back.h"
#include "entry/entry.h"
#include "order/section.h"
#include "order/turn.h"
#include "place/watch.h"
#include "signals/signal.h"

void image_enter(struct context *context);
void image_enter(struct context *context)
{
	arm_interception(context);
	/* A debugger copies the process, and the copies need all its memory. */
	if (context->in_image == IN_IMAGE_READY && !is_debugged())
		kept_back_hide(context->process);
	if (context->goes_on == GOES_ON_TURN) {
		turn_obey_next(context);
		leave(context);
		section_leave(context);
	} else if (context->goes_on == GOES_ON_CODE)
		leave(context);
	else
		runtime_syscall(context);
	restore_full(context);
}
